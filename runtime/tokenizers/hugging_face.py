"""Reads `tokenizer.json`, the form of Hugging Face's tokenizers."""

import base64
import binascii
import json
import unicodedata
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from alcove.runtime.tokenizers import characters
from alcove.runtime.tokenizers.charsmap import read_charsmap
from alcove.runtime.tokenizers.errors import UnsupportedTokenizerError
from alcove.runtime.tokenizers.table import LONGEST_STRING, MARK, Flag, Merge, Model, Parts, Split

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CL100K: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}DIGITS|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CL100K: Final = {_CL100K.replace("DIGITS", f"{{1,{most}}}" if most > 1 else ""): most for most in (1, 2, 3)}
"""Regular expressions that split a text for tiktoken's cl100k, Llama 3 and Qwen 2, and the digits of a number."""

Json = Any


def read_json(
    data: bytes, prefix: Sequence[str] | None = None, suffix: Sequence[str] | None = None
) -> tuple[Parts, dict[str, int], bool]:
    """Return the parts of a tokenizer, its special tokens, and whether it puts a space before a text.

    Raises:
        UnsupportedTokenizerError: it is no such file, or the tokenizer does what no table can say.
    """
    try:
        root = json.loads(data)
        model = root["model"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UnsupportedTokenizerError([f"no tokenizer.json: {error}"]) from error
    reader = _Reader(root, model)
    try:
        return reader.read(prefix, suffix)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        missing = f"an entry is missing or of another type: {error!r}"
        raise UnsupportedTokenizerError([*reader.reasons, missing]) from error


class _Reader:
    """Collects what a file says, and all that is not supported."""

    def __init__(self, root: Json, model: Json) -> None:
        self.root, self.model = root, model
        self.reasons: list[str] = []
        self.flags = Flag(0)
        self.split = Split.NONE
        self.most_digits = 0
        self.properties: Callable[[], NDArray[np.uint8]] = characters.spaces
        self.replacements: dict[bytes, bytes] = {}
        added = [token for token in root.get("added_tokens") or [] if token.get("special", False)]
        self.special: dict[str, int] = {token["content"]: int(token["id"]) for token in added}
        self.added: dict[str, int] = {token["content"]: int(token["id"]) for token in root.get("added_tokens") or []}

    def read(self, prefix: Sequence[str] | None, suffix: Sequence[str] | None) -> tuple[Parts, dict[str, int], bool]:
        kind = self.model.get("type") or ("BPE" if "merges" in self.model else "")
        readers: dict[str, Callable[[], dict[str, Any]]] = {
            "BPE": self._byte_pair,
            "Unigram": self._unigram,
            "WordPiece": self._word_piece,
        }
        if kind not in readers:
            raise UnsupportedTokenizerError([f"model {kind!r}: BPE, Unigram and WordPiece are read"])
        self._normalizer(self.root.get("normalizer"))
        self._pre_tokenizer(self.root.get("pre_tokenizer"))
        parts = readers[kind]()
        before, behind = self._template(self.root.get("post_processor"))
        parts["prefix"] = before if prefix is None else self._ids(prefix)
        parts["suffix"] = behind if suffix is None else self._ids(suffix)
        parts["padding"] = self._padding()
        long = [piece for piece in parts["pieces"] if len(piece) > LONGEST_STRING]
        if long:
            self.reasons.append(f"{len(long)} pieces have more than {LONGEST_STRING} bytes, such as {long[0][:40]!r}")
        if self.reasons:
            raise UnsupportedTokenizerError(self.reasons)
        drops = bool(self.flags & (Flag.PREPEND | Flag.PREPEND_UNLESS_THERE)) or kind == "WordPiece"
        known = Parts(
            split=self.split,
            flags=self.flags,
            most_digits=self.most_digits,
            properties=self.properties(),
            replacements=self.replacements,
            **parts,
        )
        return known, self.special, drops

    # -- models --------------------------------------------------------------------------------------------------------

    def _byte_pair(self) -> dict[str, Any]:
        vocabulary: dict[str, int] = self.model["vocab"]
        for name in ("continuing_subword_prefix", "end_of_word_suffix"):
            if self.model.get(name):
                self.reasons.append(f"BPE with {name}={self.model[name]!r}: none is read")
        if self.model.get("dropout"):
            self.reasons.append("BPE with dropout: 0 is read")
        is_byte_level = bool(self.flags & Flag.BYTE_LEVEL)
        merges = []
        for rank, pair in enumerate(self.model["merges"]):
            left, right = pair.split(" ", 1) if isinstance(pair, str) else pair
            merges.append(Merge(vocabulary[left], vocabulary[right], rank, vocabulary[left + right]))
        if self.model.get("ignore_merges"):
            self.flags |= Flag.WHOLE_WORDS
        alphabet = {character: byte for byte, character in enumerate(byte_alphabet())}

        def to_bytes(piece: str) -> bytes:
            if not is_byte_level or any(each not in alphabet for each in piece):
                return piece.encode()
            return bytes(alphabet[each] for each in piece)

        bytes_: list[int] = []
        if is_byte_level:
            missing = [character for character in byte_alphabet() if character not in vocabulary]
            if missing:
                self.reasons.append(f"a byte-level BPE without a token for {len(missing)} of the 256 bytes")
            bytes_ = [vocabulary.get(character, 0) for character in byte_alphabet()]
        else:
            bytes_ = self._byte_fallback(vocabulary)
        self._unknown_flags(default=False)
        needs_pieces = not is_byte_level or self.flags & Flag.WHOLE_WORDS
        pieces = {to_bytes(piece): token for piece, token in vocabulary.items() if piece not in self.special}
        return {
            "model": Model.BYTE_PAIR,
            "texts": self._texts(vocabulary, to_bytes if is_byte_level else self._plain_text),
            "pieces": pieces if needs_pieces else {},
            "merges": merges,
            "bytes_": bytes_,
            "unknown": vocabulary.get(self.model.get("unk_token") or ""),
        }

    def _unigram(self) -> dict[str, Any]:
        entries: list[tuple[str, float]] = [(piece, float(score)) for piece, score in self.model["vocab"]]
        vocabulary = {piece: token for token, (piece, _) in enumerate(entries)}
        bytes_ = self._byte_fallback(vocabulary)
        self._unknown_flags(default=True)
        spelled = {piece.encode(): token for piece, token in vocabulary.items() if piece and piece not in self.special}
        size = max([len(entries) - 1, *self.added.values()]) + 1
        return {
            "model": Model.UNIGRAM,
            "texts": self._texts(vocabulary, self._plain_text),
            "pieces": spelled,
            "scores": [score for _, score in entries] + [0.0] * (size - len(entries)),
            "least_score": min(score for _, score in entries),
            "bytes_": bytes_,
            "unknown": self.model.get("unk_id"),
        }

    def _word_piece(self) -> dict[str, Any]:
        vocabulary: dict[str, int] = self.model["vocab"]
        continuation: str = self.model.get("continuing_subword_prefix") or "##"

        def text(piece: str) -> bytes:
            inside = piece.startswith(continuation) and len(piece) > len(continuation)
            return piece.removeprefix(continuation).encode() if inside else b" " + piece.encode()

        return {
            "model": Model.WORD_PIECE,
            "texts": self._texts(vocabulary, text),
            "pieces": {piece.encode(): token for piece, token in vocabulary.items() if piece not in self.special},
            "continuation": continuation.encode(),
            "most_characters": int(self.model.get("max_input_chars_per_word", 100)),
            "unknown": vocabulary.get(self.model.get("unk_token") or "[UNK]"),
        }

    def _byte_fallback(self, vocabulary: dict[str, int]) -> list[int]:
        if not self.model.get("byte_fallback"):
            return []
        self.flags |= Flag.BYTE_FALLBACK
        names = [f"<0x{byte:02X}>" for byte in range(256)]
        missing = [name for name in names if name not in vocabulary]
        if missing:
            self.reasons.append(f"byte fallback without the tokens {', '.join(missing[:3])}")
        return [vocabulary.get(name, 0) for name in names]

    def _unknown_flags(self, *, default: bool) -> None:
        if self.model.get("fuse_unk", default):
            self.flags |= Flag.FUSE_UNKNOWN

    def _plain_text(self, piece: str) -> bytes:
        if self.model.get("byte_fallback") and len(piece) == 6 and piece.startswith("<0x") and piece[5] == ">":
            return bytes([int(piece[3:5], 16)])
        return (piece.replace(MARK, " ") if self.flags & Flag.MARK_SPACES else piece).encode()

    def _texts(self, vocabulary: dict[str, int], of: Callable[[str], bytes]) -> list[bytes]:
        """Return what each id is written out as; special tokens as nothing."""
        size = max([*vocabulary.values(), *self.added.values()]) + 1
        texts = [b""] * size
        for piece, token in vocabulary.items():
            texts[token] = of(piece)
        for content, token in self.added.items():
            texts[token] = b"" if content in self.special else content.encode()
        return texts

    # -- before and after ----------------------------------------------------------------------------------------------

    def _normalizer(self, step: Json) -> None:
        step = step or {}
        kind = step.get("type")
        if kind == "Sequence":
            for each in step["normalizers"]:
                self._normalizer(each)
        elif kind == "BertNormalizer":
            self._bert(step)
        elif kind == "Prepend" and step["prepend"] == MARK:
            self.flags |= Flag.PREPEND
        elif kind == "Replace" and step["pattern"] == {"String": " "} and step["content"] == MARK:
            self.flags |= Flag.MARK_SPACES
        elif kind == "Replace" and step["pattern"] == {"Regex": " {2,}"} and step["content"] in {" ", MARK}:
            self.flags |= Flag.COLLAPSE_SPACES
            self.properties = characters.plain_space
        elif kind == "Precompiled":
            replacements, composes = characters.drop_syllables(
                read_charsmap(_from_base64(step["precompiled_charsmap"]))
            )
            self.flags |= Flag.COMPOSE_HANGUL if composes else Flag(0)
            self._replace(replacements)
        elif kind in {"NFC", "NFKC"}:
            self._replace(characters.normal_form(kind))
            self.flags |= Flag.COMPOSE_HANGUL
        elif kind == "Lowercase":
            self._replace(characters.map_characters(characters.lower))
        elif kind == "Strip" or kind is None:
            pass
        else:
            self.reasons.append(
                f"normalizer {step}: BertNormalizer, NFC, NFKC, Precompiled, Lowercase by itself, and spaces that "
                f"become {MARK} are read"
            )

    def _replace(self, replacements: dict[bytes, bytes]) -> None:
        if self.replacements:
            self.reasons.append("two normalizers that replace characters: one is read")
        self.replacements = replacements

    def _bert(self, step: Json) -> None:
        lowers = bool(step.get("lowercase", True))
        strips = step.get("strip_accents")
        strips = lowers if strips is None else bool(strips)
        cleans = bool(step.get("clean_text", True))
        self.properties = lambda: characters.bert(cleans=cleans)
        if step.get("handle_chinese_chars", True):
            self.flags |= Flag.PAD_IDEOGRAPHS
        if strips:
            self.flags |= Flag.DECOMPOSE_HANGUL

        def change(text: str) -> str:
            text = characters.strip_accents(text) if strips else text
            return characters.lower(text) if lowers else text

        ideographs = {chr(each).encode() for first, last in characters.IDEOGRAPHS for each in range(first, last + 1)}
        changes = characters.map_characters(change) if lowers or strips else {}
        padded = {key: b" " + value + b" " for key, value in changes.items() if key in ideographs}
        self._replace(changes | (padded if self.flags & Flag.PAD_IDEOGRAPHS else {}))
        if cleans:
            dropped = [
                key for key in self.replacements if characters.bert(cleans=True)[ord(key.decode())] & characters.DROPPED
            ]
            for key in dropped:
                del self.replacements[key]

    def _pre_tokenizer(self, step: Json) -> None:
        step = step or {}
        kind = step.get("type")
        if kind == "Sequence":
            for each in step["pretokenizers"]:
                self._pre_tokenizer(each)
        elif kind == "ByteLevel":
            self.flags |= Flag.BYTE_LEVEL
            if step.get("add_prefix_space", True):
                self.flags |= Flag.PREPEND_UNLESS_THERE
            if step.get("use_regex", True):
                self.split, self.properties = Split.GPT2, characters.words
        elif kind == "Split":
            self._split(step)
        elif kind == "BertPreTokenizer":
            self.split = Split.PUNCTUATION
            if self.properties is characters.spaces:
                self.properties = lambda: characters.bert(cleans=False)
        elif kind == "Metaspace":
            self._metaspace(step)
        elif kind == "WhitespaceSplit":
            self.flags |= Flag.COLLAPSE_SPACES
            self.properties = characters.spaces
        elif kind is not None:
            self.reasons.append(
                f"pre-tokenizer {kind}: ByteLevel, BertPreTokenizer, Metaspace, WhitespaceSplit before it, and Split "
                "by the expressions of GPT-2, cl100k, Llama 3 and Qwen 2 are read"
            )

    def _split(self, step: Json) -> None:
        expression = step["pattern"].get("Regex")
        if step.get("invert") or step.get("behavior") != "Isolated" or expression not in {GPT2, *CL100K}:
            self.reasons.append(f"splitting by {step['pattern']}: the expressions of GPT-2, cl100k, Llama 3 and Qwen 2")
            return
        self.properties = characters.words
        self.split = Split.GPT2 if expression == GPT2 else Split.CL100K
        self.most_digits = CL100K.get(expression, 0)

    def _metaspace(self, step: Json) -> None:
        if step.get("replacement", MARK) != MARK:
            self.reasons.append(f"Metaspace with {step['replacement']!r}: {MARK} is read")
        self.flags |= Flag.MARK_SPACES
        scheme = step.get("prepend_scheme") or ("always" if step.get("add_prefix_space", True) else "never")
        if scheme in {"always", "first"}:
            self.flags |= Flag.PREPEND_UNLESS_THERE
        if step.get("split", True):
            self.split = Split.MARKS

    def _ids(self, names: Sequence[str]) -> list[int]:
        unknown = [name for name in names if name not in self.added]
        if unknown:
            raise UnsupportedTokenizerError([f"no special token {unknown[0]!r}: there are {', '.join(self.added)}"])
        return [self.added[name] for name in names]

    def _template(self, step: Json) -> tuple[list[int], list[int]]:
        """Return the tokens before and behind a text."""
        step = step or {}
        kind = step.get("type")
        if kind == "Sequence":
            found = [self._template(each) for each in step["processors"]]
            return [token for before, _ in found for token in before], [token for _, b in found for token in b]
        if kind in {"BertProcessing", "RobertaProcessing"}:
            return [int(step["cls"][1])], [int(step["sep"][1])]
        if kind == "TemplateProcessing":
            ids = {name: list(token["ids"]) for name, token in step["special_tokens"].items()}
            sides: tuple[list[int], list[int]] = ([], [])
            has_text = False
            for part in step["single"]:
                if "Sequence" in part:
                    has_text = True
                else:
                    sides[has_text].extend(ids[part["SpecialToken"]["id"]])
            return sides
        if kind not in {None, "ByteLevel"}:
            self.reasons.append(f"post-processor {kind}: templates and those of BERT and RoBERTa are read")
        return [], []

    def _padding(self) -> int:
        if self.root.get("padding"):
            return int(self.root["padding"]["pad_id"])
        return next((self.added[name] for name in ("[PAD]", "<pad>", "<|pad|>") if name in self.added), 0)


def byte_alphabet() -> str:
    """Return the character that byte-level files write for each of the 256 bytes."""
    kept = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return "".join(chr(byte if byte in kept else next(others)) for byte in range(256))


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise UnsupportedTokenizerError([f"a charsmap that is no base64: {error}"]) from error


UNICODE_VERSION: Final = unicodedata.unidata_version
"""Of the tables that are written; a file says nothing of its own."""
