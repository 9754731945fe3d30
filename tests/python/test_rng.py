"""Random number generators: seeds, the 16-byte state, fork_rng, generators of one's own."""

import struct

import pytest
import torch

neuron = torch.neuron


def draw(n=8, generator=None):
    return torch.rand(n, device="neuron", generator=generator).cpu()


def unpack(state):
    return struct.unpack("<QQ", bytes(state.tolist()))


def test_state_is_seed_and_offset():
    torch.manual_seed(77)
    state = neuron.get_rng_state()
    assert state.device.type == "cpu" and state.dtype == torch.uint8 and state.shape == (16,)
    assert unpack(state) == (77, 0)
    draw()
    seed, offset = unpack(neuron.get_rng_state())
    assert seed == 77 and offset > 0
    assert unpack(state) == (77, 0), "a state is a copy"


def test_offset_is_reserved_when_recorded():
    torch.manual_seed(1)
    a = torch.rand(1000, device="neuron")
    assert unpack(neuron.get_rng_state())[1] > 0
    assert 0.4 < a.mean().item() < 0.6


@pytest.mark.parametrize("seed", [torch.manual_seed, neuron.manual_seed, neuron.manual_seed_all])
def test_seeding_repeats(seed):
    seed(5)
    a, b = draw(), draw()
    seed(5)
    assert torch.equal(a, draw()) and torch.equal(b, draw())
    assert not torch.equal(a, b)
    seed(6)
    assert not torch.equal(a, draw())
    assert neuron.initial_seed() == 6


@pytest.mark.parametrize("seed", [0, 2**63 - 1, -1])
def test_seeds_at_the_edges(seed):
    torch.manual_seed(seed)
    assert unpack(neuron.get_rng_state())[0] == seed % 2**64
    a = draw()
    torch.manual_seed(seed)
    assert torch.equal(a, draw())


@pytest.mark.parametrize("seed", [neuron.seed, neuron.seed_all, torch.seed])
def test_random_seeds_differ(seed):
    seed()
    a = draw()
    seed()
    assert not torch.equal(a, draw())


@pytest.mark.parametrize("device", ["neuron", "neuron:0", 0, torch.device("neuron", 0)])
def test_state_can_be_set_again(device):
    draw()
    state = neuron.get_rng_state(device)
    a = draw()
    neuron.set_rng_state(state, device)
    assert torch.equal(a, draw())


def test_all_states():
    states = neuron.get_rng_state_all()
    assert len(states) == neuron.device_count() == len(neuron.default_generators)
    a = draw()
    neuron.set_rng_state_all(states)
    assert torch.equal(a, draw())


@pytest.mark.parametrize(
    "bad", [torch.zeros(8, dtype=torch.uint8), torch.zeros(16), torch.zeros(17, dtype=torch.uint8)]
)
def test_bad_state_is_refused_and_changes_nothing(bad):
    before = neuron.get_rng_state()
    with pytest.raises((RuntimeError, TypeError)):
        neuron.set_rng_state(bad)
    assert torch.equal(before, neuron.get_rng_state())


def test_missing_device():
    with pytest.raises(RuntimeError, match="does not exist"):
        neuron.get_rng_state(3)


@pytest.mark.parametrize("device_type", ["neuron", None])
def test_fork_rng(device_type):
    torch.manual_seed(9)
    expected = draw()
    torch.manual_seed(9)
    with torch.random.fork_rng(device_type=device_type):
        torch.manual_seed(1)
        draw()
    assert torch.equal(expected, draw())


def test_cpu_generator_is_untouched():
    torch.manual_seed(4)
    before = torch.get_rng_state()
    draw(100)
    torch.randn(10, device="neuron").bernoulli_(0.5).sum().item()
    torch.randperm(9, device="neuron")
    assert torch.equal(before, torch.get_rng_state())


def test_own_generator():
    generator = torch.Generator("neuron").manual_seed(3)
    assert generator.device == torch.device("neuron:0")
    default = neuron.get_rng_state()
    a = draw(generator=generator)
    assert torch.equal(default, neuron.get_rng_state())
    state = generator.get_state()
    b = draw(generator=generator)
    generator.set_state(state)
    assert torch.equal(b, draw(generator=generator))
    assert torch.equal(a, draw(generator=torch.Generator("neuron").manual_seed(3)))
    torch.manual_seed(3)
    assert torch.equal(a, draw()), "equal seeds give equal numbers"


def test_clone_of_a_generator_goes_its_own_way():
    generator = torch.Generator("neuron").manual_seed(3)
    clone = generator.clone_state()
    a = draw(generator=generator)
    assert torch.equal(a, draw(generator=clone))


def test_generator_of_another_device_is_refused():
    with pytest.raises(RuntimeError):
        draw(generator=torch.Generator())


def test_default_generator():
    generator = neuron.default_generators[0]
    assert neuron._get_generator(torch.device("neuron")) is generator
    torch.manual_seed(12)
    assert generator.initial_seed() == 12
    a = draw()
    generator.manual_seed(12)
    assert torch.equal(a, draw(generator=generator))
