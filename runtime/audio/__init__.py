"""Provides sound as torch modules that train in torch and run inside exported programs, whole or hop by hop.

    stft, istft = StreamingStft(512, 256), StreamingIstft(512, 256)
    cleaned = istft(stft(hop) * mask)          # f32 [1, 256] in and out; buffers are the session's states

`forward` takes the next hop of a stream; `whole` gives the same numbers of a whole signal, for training.
"""

from alcove.runtime.audio.ctc import CtcText, Paths, ctc_beam, ctc_greedy
from alcove.runtime.audio.mel import LogMel, MelFilterbank, mel_weights
from alcove.runtime.audio.resample import Resample
from alcove.runtime.audio.stft import StreamingIstft, StreamingStft

__all__ = [
    "CtcText",
    "LogMel",
    "MelFilterbank",
    "Paths",
    "Resample",
    "StreamingIstft",
    "StreamingStft",
    "ctc_beam",
    "ctc_greedy",
    "mel_weights",
]
