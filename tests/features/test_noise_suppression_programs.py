"""The committed program: size, certificate, re-export to the same bytes, answers, and the card's figures."""

import json
from pathlib import Path

import numpy as np
import pytest
from alcove.features.card_figures import replace_figures
from alcove.features.errors import FieldError
from alcove.features.noise_suppression import NoiseAnswer, NoiseSuppression
from alcove.features.noise_suppression.card import PICTURE, figures, picture
from alcove.features.noise_suppression.config import DEFAULT_VERSION, DELAY_SAMPLES, HOP, SAMPLE_RATE
from alcove.features.noise_suppression.contract import PROGRAMS, program_path
from alcove.features.noise_suppression.example import HOLD_SECONDS, Microphone
from alcove.features.noise_suppression.made import made_speech
from alcove.runtime import InputError, Model, load
from alcove.runtime.certificate import check_certificate

from tests.features.exported import assert_exported_again

FOLDER = PROGRAMS.parent


@pytest.fixture(scope="module")
def model() -> Model:
    """The committed program, loaded."""
    return load(program_path(DEFAULT_VERSION))


def si_sdr_db(clean: np.ndarray, heard: np.ndarray) -> float:
    """Return the scale-invariant ratio of signal to distortion, dB."""
    scaled = clean * (heard @ clean / (clean @ clean))
    return float(10 * np.log10(scaled @ scaled / ((heard - scaled) @ (heard - scaled))))


def test_program_is_small_certified_and_remembers(model: Model) -> None:
    """Within 600 kB, with procedural samples, and with a state: the last hop, the overlap, pasts, hidden states."""
    assert program_path(DEFAULT_VERSION).stat().st_size <= 600_000
    assert [port.shape for port in model.inputs] == [(1, HOP)]
    assert [port.shape for port in model.outputs] == [(1, HOP), (1, 1)]
    assert {"heard", "tail"} < set(model.states)
    report = check_certificate(model)
    assert report.samples >= 10
    assert report.licence == "procedural"
    model.verify_weights()


def test_committed_program_is_exported_again_to_the_same_bytes() -> None:
    """From the weights that lie beside it."""
    pytest.importorskip("torch", reason="exporting needs torch: install alcove-platform[export]")
    from alcove.features.noise_suppression.build import build

    assert_exported_again(bytes(build(DEFAULT_VERSION)), program_path(DEFAULT_VERSION).read_bytes())


def test_native_answers_equal_torch_over_a_stream(model: Model) -> None:
    """60 hops: sound to a hundred-thousandth of full scale, activity to a thousandth."""
    torch = pytest.importorskip("torch", reason="comparing needs torch: install alcove-platform[export]")
    from alcove.features.noise_suppression.build import module_of_weights, weights_path

    module = module_of_weights(weights_path(DEFAULT_VERSION))
    session = model.session()
    for hop in made_speech(60 * HOP, seed=8).reshape(-1, 1, HOP):
        with torch.no_grad():
            clean, speech = module(torch.from_numpy(hop))
        heard = session(hop)
        np.testing.assert_allclose(heard[0], clean.numpy(), atol=1e-5)
        np.testing.assert_allclose(heard[1], speech.numpy(), atol=1e-3)


def test_noise_between_words_is_taken_out_and_the_speech_kept(model: Model) -> None:
    """Made speech in white noise at 5 dB: 3 dB better at least; noise alone becomes a tenth or less."""
    speech = made_speech(2 * SAMPLE_RATE, seed=2)
    noise = np.random.default_rng(2).normal(size=len(speech))
    noise *= np.sqrt(np.mean(speech**2) / np.mean(noise**2)) * 10 ** (-5 / 20)
    for sound in (speech + noise, noise):
        session = model.session()
        hops = np.append(sound, np.zeros(DELAY_SAMPLES)).astype(np.float32).reshape(-1, 1, HOP)
        heard = np.concatenate([session(hop)[0][0].copy() for hop in hops])[DELAY_SAMPLES:]
        if sound is noise:
            assert np.std(heard[SAMPLE_RATE:]) < 0.1 * np.std(noise)
        else:
            assert si_sdr_db(speech, heard) > 8


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
def test_session_survives_what_is_no_number(model: Model, bad: float) -> None:
    """It counts as 0: the same answers, then and later."""
    sound = made_speech(12 * HOP, seed=9).reshape(-1, 1, HOP)
    spoilt, zeroed = sound.copy(), sound.copy()
    spoilt[4, 0, 17], zeroed[4, 0, 17] = bad, 0
    first, second = model.session(), model.session()
    for left, right in zip(spoilt, zeroed, strict=True):
        for got, expected in zip(first(left), second(right), strict=True):
            np.testing.assert_array_equal(got, expected)


def test_reset_forgets_the_stream(model: Model) -> None:
    """A new call begins as the first one did."""
    sound = made_speech(6 * HOP, seed=10).reshape(-1, 1, HOP)
    session = model.session()
    first = [session(hop)[0].copy() for hop in sound]
    session.reset()
    np.testing.assert_array_equal(first, [session(hop)[0].copy() for hop in sound])


def test_hop_of_another_size_is_refused(model: Model) -> None:
    """By the runtime, before anything is remembered."""
    with pytest.raises(InputError):
        model.session()(np.zeros((1, HOP - 1), np.float32))


def test_line_of_samples_is_answered_by_name(model: Model) -> None:
    """A list, or an object with one; `null` is no number."""
    feature = NoiseSuppression()
    line = json.dumps({"samples": [None, *[0.1] * (HOP - 1)]}).encode()
    [inputs] = feature.parse(line)
    assert np.isnan(inputs[0, 0])
    answer = feature.decode(model.session()(inputs))
    assert len(answer.samples) == HOP
    assert 0 <= answer.speech <= 1


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"", "expected JSON"),
        (b"[" * 100_000, "expected"),
        (b"3", "not int"),
        (b"[1, 2]", "a list of 2"),
        (json.dumps(["x"] * HOP).encode(), "sample 0 must be a number"),
        (json.dumps([True] * HOP).encode(), "sample 0 must be a number"),
        (json.dumps([10**400] * HOP).encode(), "larger than any"),
    ],
)
def test_line_that_is_no_hop_says_what_was_expected(line: bytes, says: str) -> None:
    """A ValueError, whatever comes."""
    with pytest.raises(ValueError, match=says):
        NoiseSuppression().parse(line)


@pytest.mark.parametrize(
    ("samples", "speech", "field"),
    [((0.0,) * 5, 0.5, "samples"), ((float("nan"),) * HOP, 0.5, "samples"), ((0.0,) * HOP, 1.5, "speech")],
)
def test_answer_out_of_its_bounds_is_refused(samples: tuple[float, ...], speech: float, field: str) -> None:
    """By the field's name."""
    with pytest.raises(FieldError, match=field):
        NoiseAnswer(samples=samples, speech=speech)


def test_outputs_of_another_program_are_refused() -> None:
    """By the shapes that are seen."""
    with pytest.raises(ValueError, match=r"\(1, 3\)"):
        NoiseSuppression().decode([np.zeros((1, 3)), np.zeros((1, 1))])


def test_gate_closes_a_while_after_the_last_speech(model: Model) -> None:
    """Silence is not sent, once the hold has passed."""
    microphone = Microphone(model, SAMPLE_RATE)
    silence = np.zeros(SAMPLE_RATE // 10, np.float32)
    heard = [microphone.hear(silence) for _ in range(int(HOLD_SECONDS * 10) + 7)]
    assert not heard[-1].is_speech


def test_card_holds_what_was_measured() -> None:
    """Of the committed program; the picture is small and shows what it gives."""
    result = json.loads((FOLDER / "evaluation.json").read_text(encoding="utf-8"))
    assert result["version"] == DEFAULT_VERSION
    assert result["program"]["bytes"] == program_path(DEFAULT_VERSION).stat().st_size
    card = (FOLDER / "CARD.md").read_text(encoding="utf-8")
    assert replace_figures(card, figures(result), writer="card.py") == card
    assert Path(FOLDER / PICTURE).stat().st_size <= 150_000
    assert picture().count("<rect") > 500
