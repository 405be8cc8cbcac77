"""The language model we train ourselves: a two-layer LSTM whose input and output share one embedding (Kann et al.
2018).

Stored as safetensors: every matrix as int8 with one half-precision scale per row, every vector in half precision.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

HIDDEN_UNITS = 512  # Kann, Rothe & Filippova 2018, section 4
LAYERS = 2  # ibid.


class LstmNetwork(nn.Module):
    """Token ids in, for each position the scores of all possible next tokens out."""

    def __init__(self, vocabulary: int, width: int, hidden: int = HIDDEN_UNITS, layers: int = LAYERS) -> None:
        super().__init__()
        self.shape = {"vocabulary": vocabulary, "width": width, "hidden": hidden, "layers": layers}
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, hidden, layers, batch_first=True)
        self.projection = nn.Linear(hidden, width)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        nn.init.normal_(self.embedding.weight, std=width**-0.5)

    def forward(self, ids: Tensor) -> Tensor:
        states, _ = self.lstm(self.embedding(ids))
        projected: Tensor = self.projection(states)
        return projected

    def logits(self, states: Tensor) -> Tensor:
        return torch.addmm(self.bias, states, self.embedding.weight.T)


def save(network: LstmNetwork, folder: Path) -> None:
    tensors = {}
    for name, value in network.state_dict().items():
        if value.dim() == 2:
            scale = (value.abs().amax(dim=1) / 127).clamp(min=1e-7).half()
            tensors[name + ".scale"] = scale
            value = (value / scale.float()[:, None]).round().clamp(-127, 127).to(torch.int8)
        else:
            value = value.half()
        tensors[name] = value.contiguous()
    save_file(tensors, folder / "model.safetensors", metadata={"shape": json.dumps(network.shape)})
    (folder / "config.json").write_text(json.dumps({"architecture": "lstm", **network.shape}) + "\n", encoding="utf-8")


def load(folder: Path) -> LstmNetwork:
    shape = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    network = LstmNetwork(**{key: shape[key] for key in ("vocabulary", "width", "hidden", "layers")})
    stored = load_file(folder / "model.safetensors")
    state = {
        name: value.float() * stored[name + ".scale"].float()[:, None] if name + ".scale" in stored else value.float()
        for name, value in stored.items()
        if not name.endswith(".scale")
    }
    network.load_state_dict(state)
    return network.eval()
