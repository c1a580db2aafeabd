"""Declares the native module for documentation; written by hand, and tests/runtime/test_native_stub.py compares it.

Sources: runtime/native/binding. Everything that fails raises from `alcove.runtime.errors`, `OSError` or `MemoryError`.
Apps use `alcove.runtime.load`, which wraps this.
"""

from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

PortFields: TypeAlias = tuple[str, int, tuple[int, ...], bool, tuple[str, ...], tuple[int, ...]]
"""Of one port: name, number of its `DType`, greatest shape, is_ragged, labels, least shape."""

@final
class OpInfo:
    """One operator of `kernels/manifest.inc`."""

    @property
    def code(self) -> int:
        """Number in the file format; never reused."""
    @property
    def name(self) -> str:
        """Name in specs and errors."""
    @property
    def min_inputs(self) -> int:
        """Fewest input tensors."""
    @property
    def max_inputs(self) -> int:
        """Most input tensors."""
    @property
    def outputs(self) -> int:
        """Number of output tensors."""
    @property
    def attributes(self) -> tuple[tuple[str, str], ...]:
        """(name, type) of each attribute in order; type is "i64", "u64" or "f64"."""
    @property
    def sharing(self) -> str:
        """When output 0 has the bytes of input 0: "none"; "in_place": if nothing uses them later; "alias": always."""

@final
class NativeModel:
    """A verified program; immutable, safe for any number of threads. `open_file` and `open_bytes` make it."""

    @property
    def inputs(self) -> list[PortFields]:
        """What a call takes, in order."""
    @property
    def outputs(self) -> list[PortFields]:
        """What a call returns, in order."""
    @property
    def memory_ceiling_bytes(self) -> int:
        """What each session allocates, or grows to."""
    @property
    def states(self) -> list[str]:
        """Names of what a session keeps from run to run."""
    @property
    def methods(self) -> list[str]:
        """Names of the entry points, the first's first; "forward" where there is one."""
    @property
    def name(self) -> str:
        """Of the method that ports, states and runs are of."""
    def method(self, name: str) -> NativeModel:
        """Return the same file with another of its methods as the one that ports, states and runs are of.

        Raises:
            KeyError: there is no such method.
        """
    @property
    def run_cost(self) -> int:
        """Elementary operations of one run, as the verifier counts them; at its greatest sizes."""
    @property
    def is_mapped(self) -> bool:
        """Whether the file is mapped and not read."""
    @property
    def certificate(self) -> bytes:
        """Content of the CERTIFICATE section; empty if there is none."""
    def digest(self) -> bytes:
        """Return the SHA-256 of the whole file, 32 bytes. Releases the GIL."""
    def verify_weights(self) -> None:
        """Compare the weights with their digest. Releases the GIL.

        Raises:
            ProgramError: code `weights_digest` or `weights_padding`.
        """
    def first_refused(self, sizes: NDArray[np.uint32]) -> tuple[int, int, int, str] | None:
        """Return the first row of `sizes` that no run can have, or None if a session would take all. Releases the GIL.

        Args:
            sizes: a row of sizes for each run in question, one for every symbol, in their order; C-contiguous.

        Returns:
            The row, the op and the tensor that refuse it (-1: none), and why.

        Raises:
            ValueError: a row has another number of sizes than the program has symbols.
        """
    def session(
        self, memory_limit_bytes: int | None = None, threads: int = 1, part_work: int = 262144
    ) -> NativeSession:
        """Return a session of this model, which it keeps alive; it never takes more than `memory_limit_bytes`.

        Args:
            memory_limit_bytes: None for no limit.
            threads: how many compute an op together, 1 to 16.
            part_work: least work that one of them is given, in multiply-adds; for tests.

        Raises:
            InputError: even the smallest sizes take more, or `threads` is out of range.
            MemoryError: the system gave no `memory_ceiling_bytes`.
            OSError: the system gave no threads.
        """

@final
class NativeSession:
    """Memory for one run at a time of one model. `NativeModel.session` makes it."""

    def __call__(self, *inputs: Any) -> list[NDArray[Any]]:
        """Run the program; releases the GIL while it runs.

        Args:
            inputs: one for each input port: `str` or UTF-8 `bytes` for text, else an array of the port's type and
                shape: numpy's, or anything with `__dlpack__` or a buffer in the processor's memory. An array that
                does not lie row-major is copied; no type is converted.

        Returns:
            New arrays, one for each output port; a ragged one has as many rows as are in use.

        Raises:
            InputError: wrong number, type or shape, an array on another device, or an index outside the table that it
                picks from.
            InvalidTextError: a text is not UTF-8.
            SessionBusyError: another thread is in a call of this session.
            RunCancelledError: the session was cancelled.
            MemoryError: the system gave none for these sizes.
        """
    def run(self, method: str, inputs: tuple[Any, ...]) -> list[NDArray[Any]]:
        """Run a method by its name, as a call runs the model's own.

        Raises:
            KeyError: there is no such method.
            InputError: as a call, and `InvalidTextError`, `SessionBusyError`, `RunCancelledError` and `MemoryError`.
        """
    def record_timestamps(self, inputs: tuple[Any, ...], runs: int, method: str | None = None) -> NDArray[np.int64]:
        """Run the program `runs` times with these inputs, and say when; releases the GIL while it runs.

        Args:
            inputs: as a call takes them.
            runs: how many, at least 1.
            method: name of the one to run; None for the model's own.

        Returns:
            Nanoseconds of a steady clock, int64 [runs, ops + 2]: before the first op, after each op in order, and after
            the states have changed. The clock is read that often, and nothing is allocated inside a run.

        Raises:
            InputError: as a call; or there are less than 1 run, or more than 2**23 of these numbers.
            InvalidTextError: a text is not UTF-8.
            SessionBusyError: another thread is in a call of this session.
            RunCancelledError: the session was cancelled.
            MemoryError: the system gave none for these sizes.
        """
    def reset(self) -> None:
        """Make the states what they were when the session began.

        Raises:
            SessionBusyError: another thread is in a call of this session.
        """
    def cancel(self) -> None:
        """Make the run at hand, and every later one until `uncancel`, end with RunCancelledError; from any thread."""
    def uncancel(self) -> None:
        """Allow runs that begin from now on."""
    @property
    def memory_bytes(self) -> int:
        """What it has allocated."""

def open_file(path: bytes) -> NativeModel:
    """Return the verified program in a file.

    Args:
        path: as `os.fsencode` gives it. A file that belongs to this user or root and that nobody may write is
            mapped; any other is read whole.

    Raises:
        ProgramError: not a regular file, or its bytes are no valid program.
        IsaError: ALCOVE_ISA names an instruction set that is unknown or that this machine lacks.
        OSError: the file cannot be opened or read.
        ValueError: the path holds a null byte.
    """

def open_bytes(data: bytes) -> NativeModel:
    """Return the verified program in `data`, which it keeps instead of a copy.

    Raises:
        ProgramError: the bytes are no valid program.
        IsaError: ALCOVE_ISA names an instruction set that is unknown or that this machine lacks.
    """

def manifest() -> list[OpInfo]:
    """Return all operators that a program can hold, by rising code."""

def kernels() -> list[tuple[str, str, str, str]]:
    """Return (op, dtype, isa, function) of each kernel of this build; for an (op, dtype) later lines are preferred."""

def scratch_bytes(op: str, **sizes: int) -> int:
    """Return how many bytes of scratch a node of operator `op` needs, by the formula that its rule checks.

    Args:
        op: name in the manifest.
        sizes: attention: length, span, width, value_width; conv2d: in_c (of a group), out_w, out_c, groups, kernel_h,
            kernel_w, stride_w, dilation_h, dilation_w; conv2d_i8: patch; conv_transpose2d: taps, in_c, out_c (of a
            group); fft, also of rfft and irfft: points, first; linear_qd8_qc8w: inputs; matmul: n, k; pointwise_conv2d:
            pixels, channels; rnn, gru, lstm:
            steps, batch, hidden, is_projected; separable_conv2d: channels, in_w, out_w, rows, kernel_h, stride_h,
            has_expand; sort: count, element_bytes; squeeze_excite_conv2d: channels, squeezed; tokenize: max_bytes;
            winograd_conv2d: in_c, out_c.

    Raises:
        TypeError: a size is missing or unknown.
        ValueError: the operator has no scratch, or a size is out of range.
    """

def functions(op: str) -> dict[str, int]:
    """Return the functions of op "unary", "binary" or "special" by name, with their numbers in the file format.

    Of any other op there are none: {}.
    """

def isa() -> str:
    """Return the instruction set that this process uses: the machine's best, or what ALCOVE_ISA names.

    Raises:
        IsaError: ALCOVE_ISA names an instruction set that is unknown or that this machine lacks.
    """

def peak_rate(dtype: str, least_ns: int) -> float:
    """Return multiply-adds a nanosecond of one thread, by this process's instruction set. Releases the GIL.

    Args:
        dtype: "f32" or "i8".
        least_ns: for how long it is measured, at least.

    Raises:
        IsaError: ALCOVE_ISA names an instruction set that is unknown or that this machine lacks.
        ValueError: another type.
    """

def read_rate(size_bytes: int, least_ns: int) -> float:
    """Return bytes a nanosecond that one thread reads of a block, which is read over and over. Releases the GIL.

    Args:
        size_bytes: of the block, 1 to 2**30.
        least_ns: for how long it is measured, at least.

    Raises:
        IsaError: ALCOVE_ISA names an instruction set that is unknown or that this machine lacks.
        ValueError: a size out of range.
        MemoryError: the system gave no such block.
    """

def clock_ns() -> float:
    """Return the nanoseconds of reading the clock of `NativeSession.record_timestamps`: the mean of thousands."""

def machine_isas() -> list[str]:
    """Return the instruction sets that this machine has, by rising preference."""

def sha256(data: bytes, portable: bool = False) -> bytes:
    """Return the SHA-256 of `data`, 32 bytes; with `portable` by the code for processors without SHA instructions."""

def sample_logits(
    logits: NDArray[np.float32], temperature: float, top_k: int, top_p: float, seed: int, draw: int
) -> int:
    """Return the index that is chosen from logits, by the arithmetic of runtime/native/core/sampling.h.

    Args:
        logits: f32 [count], 1 to 2**22, finite or negative infinity.
        temperature: 0 for the greatest, else a finite number above it.
        top_k: among the k greatest; 0 for all.
        top_p: among the fewest that together have this probability, in (0, 1].
        seed: in [0, 2**64).
        draw: number of the random bits, in [0, 2**64).

    Raises:
        InputError: a number is out of range, or a logit is NaN or infinite.
    """

def resample(
    pixels: NDArray[np.uint8],
    row_first: NDArray[np.uint32],
    row_weights: NDArray[np.float32],
    column_first: NDArray[np.uint32],
    column_weights: NDArray[np.float32],
) -> NDArray[np.uint8]:
    """Return a picture whose pixels are weighted sums of neighbors, uint8 [rows, columns, 3]. Releases the GIL.

    Rows are mixed first, in float32, in the order of the weights; the result is rounded half up and kept in [0, 255].

    Args:
        pixels: uint8 [height, width, 3].
        row_first: uint32 [rows], the first of the picture's rows that each row is made of.
        row_weights: f32 [rows, taps], what it and those below it count; 1 <= taps <= height.
        column_first: uint32 [columns], the same from left to right.
        column_weights: f32 [columns, taps]; 1 <= taps <= width.

    Raises:
        ValueError: weights reach beyond the picture, or there are none.
        TypeError: an array of another type or shape, or one that does not lie row by row.
        MemoryError: no memory for a row of the picture or the result.
    """

def philox(counter: list[int], key: list[int]) -> tuple[int, int, int, int]:
    """Return the four words of Philox 4x32-10 for a counter of four words and a key of two.

    Raises:
        ValueError: another number of words.
    """

def ngram_hash(
    text: str | bytes,
    min_order: int,
    max_order: int,
    buckets: int,
    seed: int,
    capacity: int,
    table: bytes | None = None,
) -> NDArray[np.int32]:
    """Return the ids of a text's hashed n-grams, as in a program: int32 [ids], ids <= capacity.

    Args:
        text: a `str`, or UTF-8 `bytes`.
        min_order: shortest n-gram in characters, >= 1.
        max_order: longest n-gram in characters, min_order ... 8.
        buckets: ids are in [0, buckets); 1 ... 2**31 - 1.
        seed: start of the hash, in [0, 2**64).
        capacity: most ids; text beyond is not read, so not validated either.
        table: composes text first (`alcove.runtime.composition`); None for text as it is.

    Raises:
        InputError: an order or the number of buckets is out of range, or the table is none.
        InvalidTextError: a text is not UTF-8.

    Source: kernels/microkernels/ngram_hash/README.md.
    """

def ngram_hash_batch(
    texts: list[str] | list[bytes], min_order: int, max_order: int, buckets: int, seed: int, capacity: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return (ids int32 [all ids], offsets int64 [texts + 1]): text i has the ids from offsets[i] to offsets[i + 1].

    The arguments and errors are those of `ngram_hash`; `capacity` is of each text.
    """

def tokenize(text: str | bytes, table: bytes, capacity: int, max_bytes: int) -> tuple[NDArray[np.int64], int]:
    """Return (ids int64 [capacity], how many are in use) of a text, as the operator `tokenize` does.

    Args:
        text: a `str`, or UTF-8 `bytes`.
        table: of the tokenizer, as `Tokenizer.table` has it.
        capacity: most ids, at most 2**20; behind those in use stand ids of the padding.
        max_bytes: of the normalized text, 1 to 2**20; what is beyond is not read.

    Raises:
        InputError: the table is none, or a number is out of range.
        InvalidTextError: the text is not UTF-8.

    Source: kernels/microkernels/tokenize/README.md.
    """

def detokenize(ids: list[int], table: bytes) -> bytes:
    """Return the bytes that tokens stand for; they need not be whole characters.

    Raises:
        InputError: the table is none, or an id is outside the vocabulary.
    """

def ctc_beam(
    log_probs: NDArray[np.float32], width: int, paths: int, blank: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Return the most probable labelings, best first, as the operator `ctc_beam` does.

    Args:
        log_probs: [batch, frames, classes], row-major, each size at least 1.
        width: prefixes that are kept, 1 to 1024.
        paths: labelings that are returned, 1 to width.
        blank: the class that stands for none.

    Returns:
        ids [batch, paths, frames], blank behind each labeling; how many are in use [batch, paths]; the logarithms of
        their probabilities [batch, paths].

    Raises:
        InputError: a number is out of range, or the search takes more than 4 GiB.

    Source: kernels/microkernels/ctc_beam/ctc_beam.h.
    """

def connected_components(masks: NDArray[np.bool_], connectivity: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the pieces of masks, as the operator `connected_components` does.

    Args:
        masks: [batch, height, width], row-major, each size at least 1, fewer than 2^31 pixels each.
        connectivity: 4 or 8.

    Returns:
        labels and areas, both of the masks' shape.

    Raises:
        InputError: a number is out of range.

    Source: kernels/microkernels/connected_components/connected_components.h.
    """

def non_maximum_suppression(
    boxes: NDArray[np.float32],
    scores: NDArray[np.float32],
    classes: NDArray[np.int64] | None,
    iou_threshold: float,
    score_threshold: float,
    most: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the boxes that are kept, best first, as the operator `non_maximum_suppression` does.

    Args:
        boxes: [batch, count, 4], row-major, each size at least 1.
        scores: [batch, count].
        classes: [batch, count], or None.
        iou_threshold: 0 to 1.
        score_threshold: any number but NaN.
        most: boxes that are kept of each of the batch, at least 1.

    Returns:
        indices [batch, most], -1 behind those in use; how many are in use [batch].

    Raises:
        InputError: a number is out of range, or the sizes don't agree.

    Source: kernels/microkernels/non_maximum_suppression/non_maximum_suppression.h.
    """
