"""A server of known timing that speaks SGLang's `POST /generate` stream and logs its own truth; in the modes steady and
no-waits also OpenAI's streams, for load clients that know no other.

Run as a program: `python tests/known_timing_server.py --mode steady ...` prints `listening PORT`, then serves until its
input ends. `GET /truth` gives what it did: for every request when its bytes were received and when each chunk went to
the socket, by the clock that the load client reads too (CLOCK_MONOTONIC is one clock for the whole machine).

Modes, each for the first `--faulty` requests (all by default; the others are steady): steady; no-waits;
error-object (two chunks, an error, [DONE]); no-done (two chunks, then closed); silent (one chunk, then nothing);
unavailable (503); bad-request (400); malformed (an event that is no JSON); empty-last (a chunk with no new text ends
the answer); split (every answer byte by byte); plain (until the connection closes); abort; not-finite (a count that is
NaN, and U+0000 in the text).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any

import known_timing_openai as openai

WORDS = (" the", " of", " and", " a", " to", " in", " is", " that")


@dataclass
class Truth:
    """What happened to one request; seconds of perf_counter."""

    prompt_tokens: int
    input_ids_head: list[int]
    mode: str
    received: float
    sent: list[tuple[float, int]] = field(default_factory=list)


class StampingReader(asyncio.StreamReader):
    """Notes when bytes came. Whoever waits for them runs later, when many requests come at once."""

    fed_at = 0.0

    def feed_data(self, data: bytes) -> None:
        self.fed_at = perf_counter()
        super().feed_data(data)


class KnownTimingServer:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.truths: list[Truth] = []
        self.attempts = 0
        self.flood_writes: list[bytes] = []
        self.connections = 0
        self.events: dict[tuple[int, int, bool, str], bytes] = {}
        self.openai_events: dict[str, list[bytes]] = {}
        """Events made before, so that 32 streams that are due together do not wait for one another's JSON."""

    def protocol(self) -> asyncio.StreamReaderProtocol:
        """One connection's."""
        return asyncio.StreamReaderProtocol(StampingReader(), self.serve)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert isinstance(reader, StampingReader)
        self.connections += 1
        try:
            while await self.answer(reader, writer):
                pass
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass  # the client went, or this program is ending
        finally:
            writer.close()

    async def answer(self, reader: StampingReader, writer: asyncio.StreamWriter) -> bool:
        """Serve one request; whether the connection stays open."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, path, _ = head.split(" ", 2)
        lengths = [line.split(":")[1] for line in head.split("\r\n") if line.lower().startswith("content-length:")]
        body = await reader.readexactly(int(lengths[0])) if lengths else b""
        if (method, path) == ("GET", "/truth"):
            truths = [asdict(truth) for truth in self.truths]
            _whole(writer, 200, {"requests": truths, "attempts": self.attempts, "connections": self.connections})
            return True
        if (method, path) == ("POST", "/tokenize") and self.options.tokenizer:
            _whole(writer, 200, _tokenized(json.loads(body)))
            return True
        if (method, path) == ("GET", "/v1/models"):
            _whole(writer, 200, openai.models())
            return True
        if method == "POST" and path in openai.PATHS:
            await self.complete(path, json.loads(body), writer, reader.fed_at)
            return True
        if (method, path) != ("POST", "/generate"):
            _whole(writer, 404, {"detail": "Not Found"})
            return True
        return await self.generate(json.loads(body), writer, reader.fed_at)

    async def generate(self, asked: dict[str, Any], writer: asyncio.StreamWriter, received: float) -> bool:
        number, self.attempts = self.attempts, self.attempts + 1
        options = self.options
        mode = options.mode if options.faulty is None or number < options.faulty else "steady"
        ids = asked["input_ids"]
        truth = Truth(len(ids), ids[:4], mode, received)
        self.truths.append(truth)
        if mode == "unavailable":
            _whole(writer, 503, {"error": {"message": "Server is starting\0"}})
            return True
        if mode == "bad-request":
            _whole(writer, 400, {"error": {"message": "The input (36000 tokens) is longer than the model's context."}})
            return True
        tokens = min(asked["sampling_params"]["max_new_tokens"], options.tokens or 1 << 30)
        stream = Stream(writer, plain=mode == "plain", bytewise=mode == "split")
        await stream.head()
        if mode == "no-waits":
            await self.flood(stream, truth, tokens)
            return True
        first_due = received + options.first_token_s
        for chunk, done in enumerate(_cumulative(tokens, options.tokens_per_chunk), start=1):
            due = first_due + (chunk - 1) * options.gap_s
            await asyncio.sleep(max(0.0, due - perf_counter()))
            event = self.event(truth, done, last=done == tokens and mode != "empty-last", mode=mode)
            truth.sent.append((perf_counter(), done))
            await stream.event(event)
            if mode == "silent":
                await asyncio.sleep(3600)
            if mode == "no-done" and chunk == 2:
                return False
            if mode == "error-object" and chunk == 2:
                await stream.event(
                    json.dumps({"error": {"message": "CUDA error: out of memory", "code": 500}}).encode()
                )
                break
            if mode == "malformed" and chunk == 2:
                await stream.event(b'{"text": "cut off')
        if mode == "empty-last":
            await stream.event(self.event(truth, tokens, last=True, mode=mode))
        await stream.event(b"[DONE]")
        await stream.end()
        return mode != "plain"

    async def complete(self, path: str, asked: dict[str, Any], writer: asyncio.StreamWriter, received: float) -> None:
        """OpenAI's stream, at the times of `/generate`."""
        options = self.options
        truth = Truth(openai.prompt_words(asked), [], options.mode, received)
        self.truths.append(truth)
        counts = _cumulative(openai.asked_tokens(asked), options.tokens_per_chunk)
        key = f"{path} {len(counts)} {asked.get('stream_options')}"
        if key not in self.openai_events:
            self.openai_events[key] = list(openai.events(path, asked, WORDS, counts))
        events = self.openai_events[key]
        stream = Stream(writer, plain=False, bytewise=False)
        await stream.head()
        if options.mode == "no-waits":
            await self.flood(stream, truth, counts[-1], events)
            return
        for chunk, (count, event) in enumerate(zip(counts, events, strict=False)):
            due = received + options.first_token_s + chunk * options.gap_s
            await asyncio.sleep(max(0.0, due - perf_counter()))
            truth.sent.append((perf_counter(), count))
            await stream.event(event)
        for event in [*events[len(counts) :], b"[DONE]"]:
            await stream.event(event)
        await stream.end()

    async def flood(self, stream: Stream, truth: Truth, tokens: int, events: list[bytes] | None = None) -> None:
        """The whole answer as fast as it goes, `--burst` chunks in one write; the first answer is kept for the others,
        so that the server is not what limits."""
        if not self.flood_writes:
            events = events or [
                self.event(truth, done, last=done == tokens, mode="no-waits")
                for done in _cumulative(tokens, self.options.tokens_per_chunk)
            ]
            chunks = [_chunk(b"data: " + event + b"\n\n") for event in [*events, b"[DONE]"]]
            burst = self.options.burst
            self.flood_writes = [b"".join(chunks[at : at + burst]) for at in range(0, len(chunks), burst)]
        for data in self.flood_writes:
            stream.writer.write(data)
            await stream.writer.drain()
        await stream.end()
        truth.sent.append((perf_counter(), tokens))

    def event(self, truth: Truth, done: int, last: bool, mode: str) -> bytes:
        """One chunk as SGLang sends it: all text and all counts so far; speculation's only in the last."""
        key = (truth.prompt_tokens, done, last, mode)
        if key not in self.events:
            self.events[key] = self.make_event(*key)
        return self.events[key]

    def make_event(self, prompt_tokens: int, done: int, last: bool, mode: str) -> bytes:
        per_chunk = self.options.tokens_per_chunk
        meta: dict[str, Any] = {
            "id": "be599060a47345e897e1d08e489fe092",
            "finish_reason": None,
            "prompt_tokens": prompt_tokens,
            "weight_version": self.options.tag,
            "num_retractions": 0,
            "queue_time": 0.0,
            "reasoning_tokens": 0,
            "completion_tokens": done,
            "cached_tokens": self.options.cached,
            "cached_tokens_details": None,
            "dp_rank": None,
        }
        if last:
            verifies = max(1, -(-done // per_chunk) - 1)
            correct = verifies * (per_chunk - 1)
            meta["finish_reason"] = {"type": "length", "length": done}
            if mode == "abort":
                meta["finish_reason"] = {"type": "abort", "message": "Aborted by the scheduler"}
            if per_chunk > 1:
                meta |= {
                    "spec_verify_ct": verifies,
                    "spec_num_correct_drafts": correct,
                    "spec_correct_drafts_histogram": [0] * (per_chunk - 1) + [verifies],
                }
        text = "".join(WORDS[index % len(WORDS)] for index in range(done))
        if mode == "not-finite":
            meta["cached_tokens"] = float("nan")
            text += "\0"
        return json.dumps(
            {"text": text, "output_ids": [1903] * done, "meta_info": meta}, separators=(",", ":")
        ).encode()


class Stream:
    """The answer's framing: chunked, or plain and ended by closing."""

    def __init__(self, writer: asyncio.StreamWriter, plain: bool, bytewise: bool) -> None:
        self.writer = writer
        self._plain = plain
        self._bytewise = bytewise

    async def head(self) -> None:
        framing = b"connection: close" if self._plain else b"transfer-encoding: chunked"
        await self._write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n" + framing + b"\r\n\r\n")

    async def event(self, payload: bytes) -> None:
        body = b"data: " + payload + b"\n\n"
        await self._write(body if self._plain else _chunk(body))

    async def end(self) -> None:
        if not self._plain:
            await self._write(b"0\r\n\r\n")

    async def _write(self, data: bytes) -> None:
        # The transport sends at once what the socket takes.
        if not self._bytewise:
            self.writer.write(data)
        else:
            for at in range(len(data)):
                self.writer.write(data[at : at + 1])
                await asyncio.sleep(0)
        await self.writer.drain()


def _chunk(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(body), body)


def _whole(writer: asyncio.StreamWriter, status: int, value: dict[str, Any]) -> None:
    body = json.dumps(value).encode()
    writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body))


def _cumulative(tokens: int, per_chunk: int) -> list[int]:
    return [*range(per_chunk, tokens, per_chunk), tokens]


def _tokenized(asked: dict[str, Any]) -> dict[str, Any]:
    """A tokenizer of words: each has the id 3000 + its length * 50 + the sum of its letters, below 8192."""
    tokens = [
        [min(8191, 3000 + len(word) * 50 + sum(word.encode()) % 997) for word in text.split()]
        for text in asked["prompt"]
    ]
    return {"tokens": tokens, "count": [len(ids) for ids in tokens], "max_model_len": 16384}


async def main(options: argparse.Namespace) -> None:
    server = KnownTimingServer(options)
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(server.protocol, "127.0.0.1", options.port, backlog=512)
    print("listening", listener.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


def options_from(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", default="steady")
    parser.add_argument("--faulty", type=int, default=None, help="only the first N requests follow the mode")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--first-token-s", type=float, default=0.2)
    parser.add_argument("--gap-s", type=float, default=0.02)
    parser.add_argument("--tokens-per-chunk", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=None, help="stop here even when more were asked for")
    parser.add_argument("--burst", type=int, default=1, help="chunks in one write, without waits")
    parser.add_argument("--tag", default="known-timing")
    parser.add_argument("--cached", type=int, default=0)
    parser.add_argument("--no-tokenizer", dest="tokenizer", action="store_false")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    asyncio.run(main(options_from(sys.argv[1:])))
