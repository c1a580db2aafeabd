"""Provides sound as torch modules that train in torch and run inside exported programs, whole or hop by hop.

    stft, istft = StreamingStft(512, 256), StreamingIstft(512, 256)
    cleaned = istft(stft(hop) * mask)          # f32 [1, 256] in and out; buffers are the session's states

"""

from alcove.runtime.audio.stft import StreamingIstft, StreamingStft

__all__ = ["StreamingIstft", "StreamingStft"]
