"""Sample inputs on the device: the same values, strides, offsets, aliasing and flags as on the CPU."""

import torch


def map_tree(value, leaf):
    """`value` with leaf(x) in place of every x that is not a container."""
    if isinstance(value, (list, tuple)):
        parts = [map_tree(x, leaf) for x in value]
        if type(value) in (list, tuple, torch.Size):
            return type(value)(parts)
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {key: map_tree(x, leaf) for key, x in value.items()}
    if isinstance(value, slice):
        return slice(leaf(value.start), leaf(value.stop), leaf(value.step))
    return leaf(value)


def read(tree):
    """The tree with its tensors' values as plain CPU tensors of their own."""
    return map_tree(tree, lambda x: x.detach().to("cpu", copy=True) if isinstance(x, torch.Tensor) else x)


class Copier:
    """Copies trees of CPU values to `device` ("cpu" makes an independent copy). Tensors that share memory still do."""

    def __init__(self, device: str):
        self.device = device
        self._memory = {}  # (storage, dtype) -> flat tensor

    def __call__(self, tree):
        return map_tree(tree, self._leaf)

    def _leaf(self, value):
        if isinstance(value, torch.Tensor):
            copy = self._tensor(value.detach())
            if isinstance(value, torch.nn.Parameter):
                return torch.nn.Parameter(copy, requires_grad=value.requires_grad)
            return copy.requires_grad_(value.requires_grad)
        if isinstance(value, torch.device) and value.type == "cpu":
            return torch.device(self.device)
        if isinstance(value, str) and value == "cpu":
            return self.device
        if isinstance(value, torch.Generator):
            return torch.Generator(self.device).manual_seed(value.initial_seed())
        return value

    def _tensor(self, tensor):
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
            return tensor.clone().to(self.device)
        if tensor.is_conj():
            return self._tensor(tensor.conj()).conj()
        if tensor.is_neg():
            return torch._neg_view(self._tensor(torch._neg_view(tensor)))
        if tensor._is_zerotensor():
            return torch._efficientzerotensor(tensor.shape, dtype=tensor.dtype, device=self.device)
        storage = tensor.untyped_storage()
        key = (storage._cdata, tensor.dtype)
        if key not in self._memory:
            length = storage.nbytes() // tensor.element_size()
            flat = torch.empty(0, dtype=tensor.dtype).set_(storage, 0, (length,), (1,))
            # The source is kept: another storage must not get its address.
            self._memory[key] = (storage, flat.clone().to(self.device))
        flat = self._memory[key][1]
        return flat.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
