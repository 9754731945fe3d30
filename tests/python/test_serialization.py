"""Saving, loading, map_location, pickling and copying."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn


def saved(value, **options):
    file = io.BytesIO()
    torch.save(value, file, **options)
    file.seek(0)
    return file


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("new_format", [True, False])
def test_round_trip(dtype, new_format):
    a = torch.arange(6).reshape(2, 3).to(dtype).neuron()
    b = torch.load(saved(a, _use_new_zipfile_serialization=new_format))
    assert b.device == torch.device("neuron:0") and b.dtype == dtype
    assert torch.equal(a.cpu(), b.cpu())


def test_pending_values_are_saved():
    a = torch.ones(5, device="neuron")
    b = a * 3 + a
    assert torch.load(saved(b)).tolist() == [4.0] * 5


@pytest.mark.parametrize(
    "location, expected",
    [
        ("cpu", "cpu"),
        (torch.device("cpu"), "cpu"),
        ("neuron", "neuron:0"),
        ("neuron:0", "neuron:0"),
        (torch.device("neuron", 0), "neuron:0"),
        ({"neuron:0": "cpu"}, "cpu"),
        (lambda storage, location: storage, "cpu"),
        (lambda storage, location: storage.neuron() if location == "neuron:0" else None, "neuron:0"),
        (None, "neuron:0"),
    ],
)
def test_map_location(location, expected):
    a = torch.arange(4.0, device="neuron")
    b = torch.load(saved(a), map_location=location)
    assert b.device == torch.device(expected)
    assert torch.equal(a.cpu(), b.cpu())


@pytest.mark.parametrize("location", ["neuron", {"cpu": "neuron:0"}])
def test_cpu_tensors_can_be_loaded_to_the_device(location):
    b = torch.load(saved(torch.arange(4.0)), map_location=location)
    assert b.is_neuron and b.tolist() == [0, 1, 2, 3]


def test_location_that_does_not_exist():
    file = saved(torch.ones(2))
    with pytest.raises(RuntimeError, match=r"NEURON device 7 but torch.neuron.device_count\(\) is 1"):
        torch.load(file, map_location="neuron:7")


def test_sharing_survives():
    a = torch.arange(10.0, device="neuron")
    whole, part = torch.load(saved([a, a[2:5]]))
    assert part.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()
    whole.mul_(10)
    assert part.tolist() == [20, 30, 40]


def test_strides_survive():
    a = torch.arange(6.0, device="neuron").reshape(2, 3).t()
    b = torch.load(saved(a))
    assert b.stride() == a.stride() and torch.equal(a.cpu(), b.cpu())


def test_module_and_optimizer_state():
    torch.manual_seed(0)
    model = nn.Linear(3, 2).neuron()
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.ones(4, 3, device="neuron")

    def step(model, optimizer):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
        return model.weight.detach().cpu()

    step(model, optimizer)
    state = torch.load(saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()}))
    other = nn.Linear(3, 2).neuron()
    other.load_state_dict(state["model"])
    resumed = torch.optim.AdamW(other.parameters())
    resumed.load_state_dict(state["optimizer"])
    assert torch.equal(step(model, optimizer), step(other, resumed))


def test_file_can_be_loaded_where_the_device_is_unknown(script, tmp_path):
    torch.save(torch.arange(3.0, device="neuron"), tmp_path / "file.pt")
    code = "import torch; print(hasattr(torch, 'neuron'), torch.load('file.pt', map_location='cpu').tolist())"
    assert script(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == "False [0.0, 1.0, 2.0]"


def test_pickle():
    a = torch.arange(4.0, device="neuron")
    b = pickle.loads(pickle.dumps(a))
    assert b.is_neuron and torch.equal(a.cpu(), b.cpu())
    assert pickle.loads(pickle.dumps(torch.device("neuron:0"))) == torch.device("neuron:0")


def test_deepcopy():
    a = torch.arange(4.0, device="neuron")
    pair = copy.deepcopy([a, a[1:3]])
    a.zero_()
    assert pair[0].tolist() == [0, 1, 2, 3]
    pair[0].add_(1)
    assert pair[1].tolist() == [2, 3], "a copy keeps what was shared shared"
    leaf = nn.Parameter(torch.ones(2, device="neuron"))
    twin = copy.deepcopy(leaf)
    assert isinstance(twin, nn.Parameter) and twin.requires_grad and twin.data_ptr() != leaf.data_ptr()


def test_storage_of_the_device():
    storage = torch.UntypedStorage(8, device="neuron")
    assert storage.device == torch.device("neuron:0") and storage.nbytes() == 8
    storage.fill_(7)
    assert storage.cpu().tolist() == [7] * 8
    a = torch.empty(0, dtype=torch.uint8, device="neuron").set_(storage)
    assert a.tolist() == [7] * 8
