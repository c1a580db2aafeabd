"""`alcove model import` of transformers' folders: a text or a sound goes in, labels or a vector come out."""

import json
import subprocess
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from alcove.runtime import load
from alcove.runtime.certificate import check_certificate

from tests.platform.cli.terminal import alcove
from tests.selection import quick_among

torch = pytest.importorskip("torch", reason="importing needs torch: install alcove-platform[export]")
t = pytest.importorskip("transformers", reason="folders of transformers need transformers")

GOOD = ("a wonderful warm film", "I loved it", "great acting and a great story", "what a lovely evening")
BAD = ("a dull film", "I hated it", "terrible acting and a boring plot", "what a waste of time")
RATE = 16_000


def tokenizer() -> Any:
    """Return a tokenizer like BERT's, of few words."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.train_from_iterator([*GOOD, *BAD], trainers.WordPieceTrainer(vocab_size=160, special_tokens=special))
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return t.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", model_max_length=64)


SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "id2label": {0: "bad", 1: "good"},
    "label2id": {"bad": 0, "good": 1},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of a classifier that has learned, a sentence model, a tagger and a decoder that classifies."""
    made = tmp_path_factory.mktemp("folders")
    words = tokenizer()
    size = len(words)
    torch.manual_seed(0)
    classifier = t.BertForSequenceClassification(t.BertConfig(vocab_size=size, **SMALL))
    batch = words([*GOOD, *BAD], padding=True, return_tensors="pt", return_token_type_ids=False)
    labels = torch.tensor([1] * len(GOOD) + [0] * len(BAD))
    optimizer = torch.optim.Adam(classifier.parameters(), lr=3e-3)
    for _ in range(40):
        optimizer.zero_grad()
        torch.autograd.backward(classifier(**batch, labels=labels).loss)
        optimizer.step()
    names = {name: SMALL[name] for name in ("id2label", "label2id")}
    gpt: dict[str, Any] = {
        **names,
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 64,
        "bos_token_id": 2,
        "eos_token_id": 3,
    }
    models = {
        "classifier": classifier,
        "sentences": t.BertForMaskedLM(t.BertConfig(vocab_size=size, **SMALL)),
        "tagger": t.BertForTokenClassification(t.BertConfig(vocab_size=size, **SMALL)),
        "decoder": t.GPT2ForSequenceClassification(t.GPT2Config(vocab_size=size, **gpt)),
    }
    for name, model in models.items():
        model.eval().save_pretrained(made / name)
        words.save_pretrained(made / name)
    lines = [f"good\t{text}" for text in GOOD] + [f"bad\t{text}" for text in BAD]
    (made / "texts.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    return made


def batch_of(folder: Path, text: str) -> Any:
    """Return a text as transformers gives it to a folder's model."""
    own = t.PreTrainedTokenizerFast.from_pretrained(folder)
    return own(text, return_tensors="pt", return_token_type_ids=False)


def import_folder(folder: Path, out: Path, *more: object) -> dict[str, Any]:
    """Run the command and return what it says as JSON."""
    said = alcove("model", "import", "--architecture", folder, "--out", out, "--json", *more)
    assert said.code == 0, said.err
    facts: dict[str, Any] = said.json
    return facts


def words_of(said: Any) -> str:
    """Return what a command wrote as an error, on one line."""
    return " ".join(said.err.replace("│", " ").split())


@pytest.mark.parametrize("is_float", quick_among([True, False], [True]), ids=["float32", "int8"])
def test_classifier_goes_from_text_to_its_labels(is_float: bool, folders: Path, tmp_path: Path) -> None:
    """Tokens are transformers', labels those of the config, and accuracy is by the file's own labels."""
    out = tmp_path / "c.alc"
    more = ("--float32",) if is_float else ()
    facts = import_folder(folders / "classifier", out, "--texts", folders / "texts.tsv", "--length", 16, *more)
    assert "same tokens as transformers for 8 of 8 texts" in facts["weights"]
    assert facts["same_best"] == 1
    classes = [{"folder": name, "pictures": 4, "torch": 4, "program": 4} for name in ("bad", "good")]
    assert facts["accuracy"] == {"torch": 1.0, "program": 1.0, "changes": [], "classes": classes}
    model = load(out)
    assert check_certificate(model).licence == "own text"
    scores, label = model("I loved it")
    assert label.tolist() == [["good"]]
    own = t.BertForSequenceClassification.from_pretrained(folders / "classifier").eval()
    batch = batch_of(folders / "classifier", "I loved it")
    with torch.no_grad():
        expected = torch.softmax(own(**batch).logits, -1).numpy()
    np.testing.assert_allclose(scores, expected, atol=1e-4 if is_float else 0.1)


@pytest.mark.thorough
def test_sentence_model_gives_the_mean_of_its_tokens(folders: Path, tmp_path: Path) -> None:
    """Without the head that the weights have; padding does not count, and the length is 1."""
    out = tmp_path / "s.alc"
    facts = import_folder(folders / "sentences", out, "--texts", folders / "texts.tsv", "--float32")
    assert "BertModel of BertForMaskedLM" in facts["weights"]
    own = t.BertForMaskedLM.from_pretrained(folders / "sentences").eval().bert
    with torch.no_grad():
        hidden = own(**batch_of(folders / "sentences", GOOD[2])).last_hidden_state
    expected = torch.nn.functional.normalize(hidden.mean(1), dim=-1).numpy()
    np.testing.assert_allclose(load(out)(GOOD[2])[0], expected, atol=1e-5)


@pytest.mark.thorough
def test_tagger_gives_a_label_for_every_token(folders: Path, tmp_path: Path) -> None:
    """And how many tokens there are."""
    out = tmp_path / "t.alc"
    import_folder(folders / "tagger", out, "--texts", folders / "texts.tsv", "--float32", "--length", 12)
    scores, labels, tokens, count = load(out)("I loved it")
    expected = batch_of(folders / "tagger", "I loved it")["input_ids"][0].tolist()
    assert count.item() == len(expected)
    assert tokens[: len(expected)].tolist() == expected
    assert (scores.shape, labels.shape) == ((12, 2), (12, 1))
    assert set(labels[:, 0].tolist()) <= {"bad", "good"}


@pytest.mark.thorough
def test_decoder_classifies_by_the_last_token(folders: Path, tmp_path: Path) -> None:
    """The same as without padding, whatever the padding is."""
    out = tmp_path / "d.alc"
    import_folder(folders / "decoder", out, "--texts", folders / "texts.tsv", "--float32", "--length", 24)
    own = t.GPT2ForSequenceClassification.from_pretrained(folders / "decoder").eval()
    batch = batch_of(folders / "decoder", BAD[2])
    with torch.no_grad():
        expected = torch.softmax(own(**batch).logits, -1).numpy()
    np.testing.assert_allclose(load(out)(BAD[2])[0], expected, atol=1e-5)


@pytest.mark.thorough
def test_outputs_without_names_get_them_from_a_file(folders: Path, tmp_path: Path) -> None:
    """As many public classifiers have it: LABEL_0 and LABEL_1."""
    folder, out = strip(folders / "classifier", tmp_path / "plain"), tmp_path / "p.alc"
    config = json.loads((folder / "config.json").read_text())
    for name in ("id2label", "label2id"):
        del config[name]
    (folder / "config.json").write_text(json.dumps(config))
    (tmp_path / "names.txt").write_text("bad\ngood\n")
    command = ("--texts", folders / "texts.tsv", "--length", 16, "--float32")
    said = alcove("model", "import", "--architecture", folder, "--out", out, *command)
    assert "none of the model's: LABEL_0, LABEL_1; name its outputs in order: --classes FILE" in words_of(said)
    facts = import_folder(folder, out, *command, "--classes", tmp_path / "names.txt")
    assert facts["accuracy"]["program"] == 1.0
    assert load(out)("I hated it")[1].item() == "bad"


def strip(folder: Path, made: Path, *names: str) -> Path:
    """Return a copy of a folder without some files."""
    made.mkdir()
    for path in folder.iterdir():
        if path.name not in names:
            (made / path.name).write_bytes(path.read_bytes())
    return made


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["classifier"], "a bert model, give --texts"),
        (["classifier", "--sounds", "."], "a bert model, give --texts"),
        (["classifier", "--texts", "texts.tsv", "--length", "65"], "the model has places for 64 tokens"),
        (["classifier", "--texts", "texts.tsv", "--seconds", "2"], "--seconds goes with --sounds"),
        (["classifier", "--texts", "texts.tsv", "--task", "ranking"], "--task is classification, tokens, embedding"),
        (["classifier", "--texts", "texts.tsv", "--option", "a=1"], "a transformers config holds its own"),
        (["classifier", "--texts", "odd.tsv"], "labels 'strange' are none of the model's: bad, good"),
        (["classifier", "--texts", "half.tsv"], "1 of 2 lines have no tab"),
        (["classifier", "--texts", "empty.tsv"], "no text in it"),
        (["sentences", "--texts", "texts.tsv", "--task", "classification"], "without a trained head give --task"),
        (["bare", "--texts", "texts.tsv"], "no weights there"),
        (["mute", "--texts", "texts.tsv"], "no tokenizer there"),
        (["nowhere", "--weights", "texts.tsv", "--texts", "texts.tsv"], "--texts goes with a folder of transformers"),
        (["transformers:bert-base-uncased", "--texts", "texts.tsv"], "none is downloaded"),
    ],
)
def test_wrong_folder_or_text_is_named(
    command: list[str], message: str, folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with what is wanted."""
    folder, options = command[0], command[1:]
    monkeypatch.chdir(folders)
    (folders / "odd.tsv").write_text("strange\ta\nbad\tb\n")
    (folders / "half.tsv").write_text("good\ta\nb\n")
    (folders / "empty.tsv").write_text("\n")
    if folder == "bare":
        folder = str(strip(folders / "classifier", tmp_path / "bare", "model.safetensors"))
    if folder == "mute":
        folder = str(strip(folders / "classifier", tmp_path / "mute", "tokenizer.json", "tokenizer_config.json"))
    said = alcove("model", "import", "--architecture", folder, "--out", tmp_path / "x.alc", *options)
    assert said.code == 2
    assert message in words_of(said)


def write_sound(path: Path, samples: Any, *, rate: int = RATE, width: int = 2, channels: int = 1) -> Path:
    """Write a WAV of samples in [-1, 1]."""
    high = 2 ** (8 * width - 1) - 1
    levels = np.round(np.asarray(samples) * high).astype(np.int64)
    levels = levels + 128 if width == 1 else levels
    data = b"".join(int(level).to_bytes(width, "little", signed=width > 1) for level in levels for _ in range(channels))
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(data)
    return path


def tone(hertz: float, count: int) -> Any:
    """Return a sine with a little noise."""
    noise = np.random.default_rng(int(hertz)).normal(size=count) * 0.02
    return (0.4 * np.sin(2 * np.pi * hertz * np.arange(count) / RATE) + noise).astype(np.float32)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_sounds_of_any_width_are_read(width: int, tmp_path: Path) -> None:
    """Both channels become one, silence fills up."""
    from alcove.platform.cli.importing.sounds import read_sound

    path = write_sound(tmp_path / "a.wav", tone(440, 800), width=width, channels=2)
    found = read_sound(path, RATE, 1000)
    np.testing.assert_allclose(found[:800], tone(440, 800), atol=2 / 2 ** (8 * width - 1))
    assert not found[800:].any()


def test_a_sound_of_another_rate_is_resampled_or_refused(tmp_path: Path) -> None:
    """The same tone, without scipy; a rate that is no simple ratio of the model's is named."""
    from alcove.platform.cli.importing.sounds import read_sound

    path = tmp_path / "a.wav"
    seen = np.sin(2 * np.pi * 440 * np.arange(8820) / 44_100).astype(np.float32) / 2
    found = read_sound(write_sound(path, seen, rate=44_100), RATE, 3200)
    wanted = np.sin(2 * np.pi * 440 * np.arange(3200) / RATE) / 2
    np.testing.assert_allclose(found[100:-100], wanted[100:-100], atol=1e-3)
    assert not read_sound(write_sound(path, seen[:0], rate=44_100), RATE, 100).any()
    with pytest.raises(typer.BadParameter, match="44099 samples a second, and the model takes 16000: convert the file"):
        read_sound(write_sound(path, seen, rate=44_099), RATE, 100)


EXTRACTORS = {
    "wav2vec2": t.Wav2Vec2FeatureExtractor,
    "raw": lambda: t.Wav2Vec2FeatureExtractor(do_normalize=False),
    "whisper": t.WhisperFeatureExtractor,
    "ast": lambda: t.ASTFeatureExtractor(max_length=200, num_mel_bins=64),
}


@pytest.mark.parametrize("name", EXTRACTORS)
def test_front_end_gives_what_transformers_gives(name: str, tmp_path: Path) -> None:
    """For sounds that are shorter and longer than what the model takes."""
    from alcove.platform.cli.importing.folders import Folder
    from alcove.platform.cli.importing.front_ends import make_front_end
    from alcove.platform.cli.importing.sounds import feature_difference

    EXTRACTORS[name]().save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "preprocessor_config.json").read_text())
    folder = Folder(tmp_path, {}, settings)
    front = make_front_end(folder)
    count = front.fixed_samples or 2 * RATE
    sounds = [np.pad(tone(300, 9000), (0, count - 9000)), tone(900, count)]
    share = feature_difference(folder, front, sounds)
    assert share is not None
    assert share < 1e-4


def test_sound_classifier_takes_samples_of_a_microphone(tmp_path: Path) -> None:
    """Folders with the model's labels are labels; the program's length is the one asked for."""
    labels = {"id2label": {0: "low", 1: "high"}, "label2id": {"low": 0, "high": 1}}
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "conv_dim": (16, 16),
        "conv_stride": (160, 2),
        "conv_kernel": (400, 3),
        "num_feat_extract_layers": 2,
        "num_conv_pos_embeddings": 16,
        "num_conv_pos_embedding_groups": 4,
        "classifier_proj_size": 16,
    }
    own = t.Wav2Vec2ForSequenceClassification(t.Wav2Vec2Config(**sizes, **labels)).eval()
    own.save_pretrained(tmp_path / "model")
    t.Wav2Vec2FeatureExtractor().save_pretrained(tmp_path / "model")
    for name, hertz in (("low", 200), ("high", 2000)):
        (tmp_path / "sounds" / name).mkdir(parents=True)
        write_sound(tmp_path / "sounds" / name / "a.wav", tone(hertz, RATE))
    out = tmp_path / "x.alc"
    facts = import_folder(
        tmp_path / "model", out, "--sounds", tmp_path / "sounds", "--seconds", 1, "--float32", "--samples", 4
    )
    assert facts["accuracy"]["torch"] == facts["accuracy"]["program"]
    sound = tone(500, RATE)
    features = t.Wav2Vec2FeatureExtractor()(sound, sampling_rate=RATE, return_tensors="pt")
    with torch.no_grad():
        expected = torch.softmax(own(features.input_values).logits, -1).numpy()
    found, label = load(out)(sound)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert label.item() == ("low", "high")[int(expected.argmax())]
    (tmp_path / "none").mkdir()
    said = alcove("model", "import", "--architecture", tmp_path / "model", "--sounds", tmp_path / "none", "--out", out)
    assert "no sound there" in words_of(said)


def test_wrong_options_are_errors_before_torch_is_loaded(tmp_path: Path) -> None:
    """A new process that has not loaded it when it says what is wrong."""
    code = (
        "import atexit, sys; from alcove.platform.cli.entry import main\n"
        "atexit.register(lambda: print('torch' in sys.modules))\n"
        "sys.exit(main())"
    )
    (tmp_path / "a.onnx").write_bytes(b"")
    wrong = [
        ["--onnx", str(tmp_path / "a.onnx"), "--input", "x=1x-3"],
        ["--architecture", "timm:resnet18", "--weights", str(tmp_path / "a.onnx")],
        ["--architecture", str(tmp_path), "--texts", str(tmp_path / "a.onnx")],
    ]
    for options in wrong:
        command = [sys.executable, "-c", code, "model", "import", "--out", str(tmp_path / "x.alc"), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout.split()) == (2, ["False"]), done.stdout + done.stderr
