"""The networks: streaming equals whole, published weights, rooms, mixtures, and the measures they are judged by."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the networks need torch: install alcove-platform[export]")

from alcove.features.noise_suppression.activity import fit_activity  # noqa: E402
from alcove.features.noise_suppression.baselines import Dtln, load_dtln  # noqa: E402
from alcove.features.noise_suppression.config import COARSE, DELAY_SAMPLES, HOP, PERMITTED, SAMPLE_RATE  # noqa: E402
from alcove.features.noise_suppression.dataset import Clip, mix, read_clips  # noqa: E402
from alcove.features.noise_suppression.made import chords, made_speech  # noqa: E402
from alcove.features.noise_suppression.metrics import si_sdr_db  # noqa: E402
from alcove.features.noise_suppression.mixtures import Mixer, speaking_frames  # noqa: E402
from alcove.features.noise_suppression.network import NoiseNetwork, interleave, neighbours  # noqa: E402
from alcove.features.noise_suppression.rooms import impulse_response  # noqa: E402
from alcove.features.noise_suppression.streaming import NoiseModule  # noqa: E402
from alcove.features.noise_suppression.train import Training, distortion_db, rate_at  # noqa: E402
from alcove.features.noise_suppression.weights import published_network  # noqa: E402

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
WEIGHTS = SHARED / "pretrained"
needs_weights = pytest.mark.skipif(not (WEIGHTS / "gtcrn").is_dir(), reason="needs ../shared/data/pretrained")
needs_calls = pytest.mark.skipif(not (SHARED / "audio_calls").is_dir(), reason="needs ../shared/data/audio_calls")


def made_clips(kind: str) -> list[Clip]:
    """Return clips made by rules."""
    return [Clip("librispeech", f"{kind}/{seed}", kind, made_speech(SAMPLE_RATE, seed)) for seed in range(3)]


def test_streaming_network_gives_what_the_whole_one_gives() -> None:
    """Random weights, 40 hops: sound and activity equal to rounding, a hop later."""
    torch.manual_seed(3)
    network = NoiseNetwork().eval()
    sound = torch.randn(1, 40 * HOP) * 0.1
    with torch.no_grad():
        clean, logit = network(sound)
        module = NoiseModule(network)
        parts = [[part.clone() for part in module(hop)] for hop in sound.split(HOP, dim=-1)]
    heard = torch.cat([part[0] for part in parts], dim=-1)
    torch.testing.assert_close(heard[:, DELAY_SAMPLES:], clean[:, :-DELAY_SAMPLES], atol=1e-5, rtol=1e-4)
    speech = torch.cat([part[1] for part in parts])[:, 0]
    torch.testing.assert_close(speech, torch.sigmoid(logit[0, :-1]), atol=1e-5, rtol=1e-4)


def test_network_hears_nothing_of_the_future() -> None:
    """What comes after a hop changes nothing that went out with it: latency is what the card says."""
    torch.manual_seed(4)
    network = NoiseNetwork().eval()
    sound = torch.randn(1, 20 * HOP) * 0.1
    later = sound.clone()
    later[:, 12 * HOP :] = 0
    with torch.no_grad():
        first, second = network(sound)[0], network(later)[0]
    torch.testing.assert_close(first[:, : 11 * HOP], second[:, : 11 * HOP])
    assert (first[:, 11 * HOP : 12 * HOP] - second[:, 11 * HOP : 12 * HOP]).abs().max() > 0


def test_neighbours_and_halves_are_in_the_published_order() -> None:
    """Channel outermost for neighbours; two halves by turns."""
    values = torch.arange(6.0).reshape(1, 2, 1, 3)
    assert neighbours(values)[0, :, 0].tolist() == [[0, 0, 1], [0, 1, 2], [1, 2, 0], [0, 3, 4], [3, 4, 5], [4, 5, 0]]
    assert interleave(values[:, :1], values[:, 1:])[0, :, 0].tolist() == [[0, 1, 2], [3, 4, 5]]


@needs_weights
def test_published_weights_take_the_noise_out_of_speech() -> None:
    """Each number has its place, and GTCRN and DTLN raise SI-SDR of made speech in white noise."""
    speech = made_speech(2 * SAMPLE_RATE // HOP * HOP, seed=2)
    noisy = mix(speech, np.random.default_rng(1).normal(size=len(speech)).astype(np.float32), 5.0)
    with torch.no_grad():
        given = torch.from_numpy(noisy)[None]
        gtcrn, dtln = published_network(WEIGHTS)(given)[0][0].numpy(), load_dtln(WEIGHTS)(given)[0].numpy()
    assert si_sdr_db(speech, gtcrn) > 7
    assert si_sdr_db(speech, dtln) > 7


def test_dtln_with_masks_of_one_gives_its_input_back() -> None:
    """Frames of 512 every 128 samples, overlap-added: with code and decoder inverse, four times the sound."""
    network = Dtln().eval()
    with torch.no_grad():
        for core in (network.spectrum, network.learned):
            core.mask.weight.zero_()
            core.mask.bias.fill_(50.0)
        basis = torch.linalg.qr(torch.randn(512, 512))[0]
        network.encoder = torch.nn.Conv1d(512, 256, 1, bias=False)
        network.encoder.weight.copy_(basis[:256, :, None])
        network.decoder.weight.copy_(basis[:256].T[:, :, None])
        sound = torch.randn(1, 2048)
        heard = network(sound)
    frames = torch.nn.functional.pad(sound, (384, 384)).unfold(-1, 512, 128) @ (basis[:256].T @ basis[:256])
    expected = torch.zeros(1, 2048 + 768)
    for number, frame in enumerate(frames[0]):
        expected[0, 128 * number : 128 * number + 512] += frame
    torch.testing.assert_close(heard, expected[:, 384:-384], atol=1e-4, rtol=1e-4)


@needs_calls
def test_training_reads_permitted_sources_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No NonCommercial speech, no noise of an unsure licence; the dev half shares no clip and no LibriSpeech reader."""
    from alcove.features.noise_suppression import dataset

    monkeypatch.setattr(dataset, "_decode", lambda _data, _row: np.zeros(10, np.float32))
    found = {
        (what, split): read_clips(SHARED / "audio_calls", what, split, tmp_path)
        for what in ("speech", "noise")
        for split in ("train", "dev")
    }
    speech = {clip.source for (what, _), clips in found.items() if what == "speech" for clip in clips}
    assert speech == {"librispeech", "kerstin", "ljspeech"}
    noise = {clip.source for (what, _), clips in found.items() if what == "noise" for clip in clips}
    assert noise == {"esc10", "speech_commands"}
    assert "CC-Sampling+" not in PERMITTED
    for what in ("speech", "noise"):
        train, dev = ({clip.name for clip in found[what, split]} for split in ("train", "dev"))
        assert train.isdisjoint(dev)
    again = read_clips(SHARED / "audio_calls", "noise", "dev", tmp_path)
    assert [clip.name for clip in again] == [clip.name for clip in found["noise", "dev"]]


def test_room_is_heard_after_the_direct_sound_and_dies_away() -> None:
    """The direct sound first and of size 1; later parts are softer."""
    response = impulse_response(np.random.default_rng(5))
    assert response[0] == pytest.approx(1, abs=0.3)
    energy = response**2
    assert energy[:1000].sum() > 5 * energy[-1000:].sum()


@pytest.mark.parametrize("snr", [-5.0, 0.0, 10.0])
def test_mixture_has_the_asked_ratio(snr: float) -> None:
    """Energy of the speech over energy of what was added, however short the noise is."""
    speech = made_speech(8000, seed=1)
    added = mix(speech, chords(3000, 1), snr) - speech
    assert 10 * np.log10(np.sum(speech**2) / np.sum(added**2)) == pytest.approx(snr, abs=0.01)


def test_mixtures_are_the_same_from_the_same_seed() -> None:
    """Finite, within full scale, speech without noise among them, and another seed gives others."""
    first, again, other = (Mixer(made_clips("en"), made_clips("fan"), 1.0, seed).batch(24) for seed in (1, 1, 2))
    assert torch.equal(first.noisy, again.noisy)
    assert not torch.equal(first.noisy, other.noisy)
    assert first.noisy.abs().max() <= 1
    assert torch.isfinite(first.noisy).all()
    assert ((first.noisy - first.clean).abs().amax(dim=1) == 0).any()
    assert first.speaking.shape == (24, first.noisy.shape[1] // HOP + 1)


def test_frames_speak_where_there_is_sound() -> None:
    """Half a second of sound between silences; a gap of 50 ms is speech, silence alone is not."""
    sound = np.zeros((2, 100 * HOP), np.float32)
    sound[0, 30 * HOP : 60 * HOP] = 0.1
    sound[0, 40 * HOP : 43 * HOP] = 0
    speaking = speaking_frames(sound)
    assert np.flatnonzero(speaking[0]).tolist() == list(range(30, 61))
    assert not speaking[1].any()


def test_si_sdr_knows_no_level_and_counts_errors() -> None:
    """A tenth of the energy wrong is 10 dB; half the level changes nothing."""
    random = np.random.default_rng(1)
    clean = random.normal(size=20_000).astype(np.float32)
    heard = clean + (10**-0.5 * random.normal(size=20_000)).astype(np.float32)
    assert si_sdr_db(clean, heard) == pytest.approx(10, abs=0.3)
    assert si_sdr_db(clean, heard / np.float32(2)) == pytest.approx(si_sdr_db(clean, heard), abs=0.01)
    louder = torch.from_numpy(np.stack([clean, clean / 2]))
    errors = distortion_db(torch.from_numpy(np.stack([clean, clean])), louder)
    assert errors[0] == pytest.approx(-30, abs=0.1)
    assert errors[1] == pytest.approx(-6, abs=0.1)


def test_activity_is_fitted_without_changing_the_sound() -> None:
    """Frames that differ in one number are told apart, the rarer kind as well; the mask stays as it is."""
    torch.manual_seed(2)
    network = NoiseNetwork().eval()
    sound = torch.randn(1, 4 * HOP)
    with torch.no_grad():
        before = network(sound)[0]
    speaking = (torch.rand(2000) < 0.9).float()
    known = torch.randn(2000, 16 * COARSE) * 5 + 3
    known[:, 7] = 100 * speaking
    assert fit_activity(network, known, speaking, steps=60) > 0.95
    with torch.no_grad():
        torch.testing.assert_close(network(sound)[0], before)


def test_training_step_lowers_its_loss_and_can_be_kept(tmp_path: Path) -> None:
    """The same mixtures three times over; the checkpoint holds the mean of the weights, near the last ones."""
    torch.manual_seed(1)
    mixer = Mixer(made_clips("en"), made_clips("fan"), 0.5, 3)
    batch = mixer.batch(2)
    mixer.batch = lambda _count: batch  # type: ignore[method-assign, assignment]
    training = Training(NoiseNetwork(), mixer)
    losses = [training.advance(0.1)["activity"] for _ in range(4)]
    assert losses[-1] < losses[0]
    training.save(tmp_path, {"steps": training.step})
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    NoiseNetwork().load_state_dict(state["network"])
    assert state["step"] == 4
    assert state["network"]["speaking.weight"].shape[1] == 16 * COARSE
    assert rate_at(1.0, 500) < rate_at(0.5, 500) < rate_at(0.0, 500)


def test_the_mean_of_runs_is_that_of_each_tensor_and_other_shapes_are_refused() -> None:
    """Half way between two networks; a network with other tensors has no mean with them."""
    from alcove.features.noise_suppression.average import average_weights

    first, second = {"a": torch.tensor([1.0, 2.0])}, {"a": torch.tensor([3.0, 6.0])}
    assert average_weights([first, second])["a"].tolist() == [2.0, 4.0]
    for states in ([], [first, {"b": first["a"]}]):
        with pytest.raises(ValueError, match="same tensors"):
            average_weights(states)
