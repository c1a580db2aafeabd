"""Random language models of the shapes of Llama and GPT-2 generate the tokens of eager torch, in one program each."""

import copy

import numpy as np
import pytest
import torch
from alcove.runtime import InputError, Method, Sampling, export, generate, load
from alcove.runtime.model import Model
from torch import Tensor, nn

LENGTH, VOCABULARY, WIDTH, LAYERS = 24, 61, 32, 2
PROMPT = [3, 14, 15, 9, 26, 5, 35]


class Attention(nn.Module):
    """Heads over a cache of its own; groups of heads share keys and values, and positions may turn."""

    def __init__(self, heads: int, groups: int, *, turns: bool) -> None:
        super().__init__()
        self.heads, self.groups, self.turns = heads, groups, turns
        self.size = WIDTH // heads
        self.query = nn.Linear(WIDTH, WIDTH, bias=not turns)
        self.key = nn.Linear(WIDTH, groups * self.size, bias=not turns)
        self.value = nn.Linear(WIDTH, groups * self.size, bias=not turns)
        self.out = nn.Linear(WIDTH, WIDTH, bias=not turns)
        self.register_buffer("keys", torch.zeros(1, groups, LENGTH, self.size))
        self.register_buffer("values", torch.zeros(1, groups, LENGTH, self.size))

    def _turn(self, x: Tensor, places: Tensor) -> Tensor:
        angles = places[:, None] / 100.0 ** (torch.arange(0, self.size, 2) / self.size)
        cosine, sine = torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)
        half = torch.cat([-x[..., self.size // 2 :], x[..., : self.size // 2]], -1)
        return x * cosine + half * sine

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        """Return f32 [1, l, 32] of f32 [1, l, 32] at int64 [l] `places`."""
        length = x.shape[1]
        query = self.query(x).view(1, length, self.heads, self.size).transpose(1, 2)
        key = self.key(x).view(1, length, self.groups, self.size).transpose(1, 2)
        value = self.value(x).view(1, length, self.groups, self.size).transpose(1, 2)
        if self.turns:
            query, key = self._turn(query, places), self._turn(key, places)
        keys, values = self.get_buffer("keys"), self.get_buffer("values")
        keys.index_copy_(2, places, key)
        values.index_copy_(2, places, value)
        mask = torch.arange(LENGTH) <= places[:, None]
        y = nn.functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask, enable_gqa=True)
        return torch.as_tensor(self.out(y.transpose(1, 2).reshape(1, length, WIDTH)))


class Block(nn.Module):
    """A layer as Llama has it, or as GPT-2."""

    def __init__(self, *, is_llama: bool) -> None:
        super().__init__()
        self.is_llama = is_llama
        self.attention = Attention(4, 2 if is_llama else 4, turns=is_llama)
        norm = nn.RMSNorm if is_llama else nn.LayerNorm
        self.norms = nn.ModuleList([norm(WIDTH), norm(WIDTH)])
        self.up, self.gate, self.down = (nn.Linear(a, b) for a, b in ((WIDTH, 48), (WIDTH, 48), (48, WIDTH)))

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        """Return the layer's rows."""
        x = x + self.attention(self.norms[0](x), places)
        y = self.norms[1](x)
        if self.is_llama:
            return torch.as_tensor(x + self.down(nn.functional.silu(self.gate(y)) * self.up(y)))
        return torch.as_tensor(x + self.down(nn.functional.gelu(self.up(y), approximate="tanh")))


class LanguageModel(nn.Module):
    """Tokens to logits of the next one, counting positions by itself."""

    def __init__(self, *, is_llama: bool) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.is_llama = is_llama
        self.blocks = nn.ModuleList(Block(is_llama=is_llama) for _ in range(LAYERS))
        self.register_buffer("position", torch.zeros((), dtype=torch.int64))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return f32 [1, vocabulary] of int64 [1, l] `tokens`."""
        position = self.get_buffer("position")
        places = position + torch.arange(tokens.shape[1])
        x = self.tokens(tokens)
        if not self.is_llama:
            x = x + self.places(places)
        for block in self.blocks:
            x = block(x, places)
        position += tokens.shape[1]
        return torch.as_tensor(self.head(x[:, -1]))


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def pair(request: pytest.FixtureRequest) -> tuple[LanguageModel, Model]:
    """A module and its program, of prefill for up to five tokens and decode for one."""
    torch.manual_seed(11)
    module = LanguageModel(is_llama=request.param == "llama").eval()
    methods = {
        "prefill": Method(
            module, (torch.tensor([PROMPT[:4]]),), dynamic_shapes={"tokens": {1: torch.export.Dim("n", min=1, max=5)}}
        ),
        "decode": Method(module, (torch.tensor([[1]]),)),
    }
    return module, load(bytes(export(methods)))


def eager_tokens(module: LanguageModel, prompt: list[int], count: int) -> list[int]:
    """Torch's own greedy loop."""
    module, tokens, found = copy.deepcopy(module), prompt, list[int]()
    with torch.no_grad():
        for _ in range(count):
            found.append(int(module(torch.tensor([tokens])).argmax()))
            tokens = found[-1:]
    return found


def test_tokens_are_those_of_torchs_greedy_loop(pair: tuple[LanguageModel, Model]) -> None:
    """A prompt longer than a run of prefill goes in parts; calls begin anew, sessions go on."""
    module, model = pair
    expected = eager_tokens(module, PROMPT, 12)
    assert list(generate(model, PROMPT, 12)) == expected
    session, other = model.session(), model.session()
    assert list(generate(session, PROMPT, 6)) == expected[:6]
    assert list(generate(other, PROMPT[:3], 5)) == eager_tokens(module, PROMPT[:3], 5)
    assert list(generate(session, expected[5:6], 6)) == expected[6:]


def test_caches_are_in_place_and_weights_and_beginnings_stored_once(pair: tuple[LanguageModel, Model]) -> None:
    """No operator writes a whole cache, and the file has one empty cache."""
    _, model = pair
    assert set(model.states) == {"position"} | {
        f"blocks.{i}.attention.{name}" for i in range(LAYERS) for name in ("keys", "values")
    }
    assert model.methods == ("prefill", "decode")


def test_a_full_cache_leaves_the_session_as_it_was(pair: tuple[LanguageModel, Model]) -> None:
    """A prompt that has no place changes nothing; what fits goes on."""
    module, model = pair
    session = model.session()
    expected = eager_tokens(module, PROMPT, 17)
    assert list(generate(session, PROMPT, 17)) == expected
    with pytest.raises(InputError, match="is 24, allowed are 0 to 23"):
        session(np.array([[1, 2, 3]]))
    assert list(generate(session, expected[-1:], 1)) == eager_tokens(module, PROMPT, 18)[-1:]


def test_sampled_tokens_repeat_with_their_seed(pair: tuple[LanguageModel, Model]) -> None:
    """The same seed the same tokens, another seed others; threads change nothing."""
    _, model = pair
    sampling = Sampling(3.0, top_k=20, top_p=0.95, seed=1)
    first = list(generate(model, PROMPT, 10, sampling=sampling))
    assert list(generate(model.session(threads=2), PROMPT, 10, sampling=sampling)) == first
    assert list(generate(model, PROMPT, 10, sampling=Sampling(3.0, 20, 0.95, seed=2))) != first
