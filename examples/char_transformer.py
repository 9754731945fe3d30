"""A character-level transformer language model, trained on the help texts that every Python carries.

    python -m openneuron run examples/char_transformer.py            train and write some text
    python examples/char_transformer.py --device cpu                 the same on the CPU

`--check` also trains the first steps op by op and on the CPU, and compares.
"""

import argparse
import math
import time
from pydoc_data.topics import topics

import torch
from torch import nn
from torch.nn import functional as F

CONTEXT = 64
BATCH = 16
WIDTH = 96
HEADS = 4
LAYERS = 2
CHECKED_STEPS = 50

text = "\n".join(topics[name] for name in sorted(topics))
alphabet = sorted(set(text))
code_of = {character: code for code, character in enumerate(alphabet)}
corpus = torch.tensor([code_of[character] for character in text])


class Block(nn.Module):
    """Causal self-attention and a two-layer perceptron, each behind a LayerNorm and around a residual."""

    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        q, k, v = (t.view(batch, length, HEADS, -1).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(WIDTH // HEADS)
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mlp(self.norm2(x))


class CharTransformer(nn.Module):
    """Codes [batch, length <= CONTEXT] to logits [batch, length, len(alphabet)]."""

    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(len(alphabet), WIDTH)
        self.position = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, len(alphabet))
        for module in self.modules():
            if isinstance(module, (nn.Embedding, nn.Linear)):
                nn.init.normal_(module.weight, std=0.05)

    def forward(self, codes):
        places = torch.arange(codes.shape[1], device=codes.device)
        x = self.token(codes) + self.position(places)
        return self.head(self.norm(self.blocks(x)))


def batches(count, device):
    """`count` random (input, target) batches, the same ones on every device."""
    order = torch.Generator().manual_seed(1)
    for _ in range(count):
        starts = torch.randint(len(corpus) - CONTEXT - 1, (BATCH,), generator=order).tolist()
        inputs = torch.stack([corpus[i : i + CONTEXT] for i in starts])
        targets = torch.stack([corpus[i + 1 : i + 1 + CONTEXT] for i in starts])
        yield inputs.to(device), targets.to(device)


def train(device, steps, stop_after, log_every=0):
    """Trains for `stop_after` of `steps` scheduled steps. Returns the model, all losses (one CPU tensor) and the
    parameters after CHECKED_STEPS steps."""
    torch.manual_seed(0)
    model = CharTransformer().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps, eta_min=3e-4)
    losses, checked = [], None
    started = time.perf_counter()
    for step, (inputs, targets) in enumerate(batches(stop_after, device), start=1):
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.detach())
        if step == CHECKED_STEPS:
            checked = [p.detach().cpu().clone() for p in model.parameters()]
        if log_every and (step % log_every == 0 or step == 1):
            milliseconds = 1000 * (time.perf_counter() - started) / step
            rate = schedule.get_last_lr()[0]
            print(
                f"step {step:4}/{steps}  loss {loss.item():.3f}  lr {rate:.1e}  {milliseconds:6.1f} ms a step",
                flush=True,
            )
    return model, torch.stack(losses).cpu(), checked


@torch.no_grad()
def write(model, device, start, count):
    """`start` continued by `count` sampled characters."""
    codes = torch.tensor([[code_of[character] for character in start]], device=device)
    for _ in range(count):
        logits = model(codes[:, -CONTEXT:])[:, -1]
        probabilities = (logits / 0.7).softmax(dim=-1)
        codes = torch.cat([codes, torch.multinomial(probabilities, 1)], dim=1)
    return "".join(alphabet[code] for code in codes[0].tolist())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="neuron")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--check", action="store_true", help="compare with op-by-op mode and with the CPU")
    options = parser.parse_args()
    if options.steps < 1 or (options.check and options.steps < CHECKED_STEPS):
        parser.error(f"--steps must be at least {CHECKED_STEPS if options.check else 1}")

    singly = plain = None
    if options.check:
        print(f"references: {CHECKED_STEPS} steps op by op, and on the CPU", flush=True)
        if options.device == "neuron":
            with torch.neuron.mode("eager"):
                singly = train(options.device, options.steps, CHECKED_STEPS)
            torch.neuron.reset_stats()
        plain = train("cpu", options.steps, CHECKED_STEPS)

    parameters = sum(p.numel() for p in CharTransformer().parameters())
    print(f"{parameters:,} parameters, {len(text):,} characters of text, device {options.device}", flush=True)
    model, losses, checked = train(options.device, options.steps, options.steps, log_every=50)
    print(f"loss {losses[:10].mean():.3f} over the first ten steps, {losses[-10:].mean():.3f} over the last ten")

    print("-" * 60)
    print(write(model, options.device, "The ", 300))
    print("-" * 60)

    if singly:
        differing = sum(int((a != b).sum()) for a, b in zip(checked, singly[2], strict=True))
        verdict = "yes" if differing == 0 else f"NO, {differing:,} of {parameters:,} differ"
        print(f"weights after {CHECKED_STEPS} steps bit-identical to op-by-op mode: {verdict}")
    if plain:
        furthest = ((losses[:CHECKED_STEPS] - plain[1]).abs() / plain[1].abs()).max().item()
        print(f"largest relative difference of the loss from plain CPU in {CHECKED_STEPS} steps: {furthest:.1e}")


if __name__ == "__main__":
    main()
