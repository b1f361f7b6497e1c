"""Batches through slots: every byte right, nothing read or written too early, nothing stale or hostile honoured."""

import errno
import logging
import os
import random
import zlib

import numpy as np
import pytest
import zmq

from proto.batches import Batch, Credit, Filled, Open, Unmapped
from proto.codec import Codec
from proto.slot_receiver import SlotReceiver
from proto.slot_sender import SlotSender
from proto.slots import Memory
from proto.sockets import Port
from proto.transport import FrameCarrier

PAGE = os.sysconf("SC_PAGESIZE")
N, WIDTH = 6, 50
LAYOUT = {"inputs": ((N, WIDTH), np.dtype(np.float32)), "targets": ((N,), np.dtype(np.int64))}


@pytest.fixture
def ports(tmp_path_factory):
    """The two ends of channel `batches`."""
    folder = tmp_path_factory.mktemp("s")
    folder.chmod(0o700)
    context = zmq.Context()
    both = [Port(context, "batches", party, folder, Codec("test")) for party in ("batcher", "boss")]
    yield both
    for port in both:
        port.close()
    context.term()


@pytest.fixture
def make_ends(ports):
    made = []

    def make(slots=2, size=PAGE, opens=True, **options):
        sender, receiver = SlotSender(ports[0]), SlotReceiver(ports[1], slots, size, **options)
        made.extend((sender, receiver))
        if opens:
            receiver.open(Open(incarnation=0, rank=0, slots=slots, eval_every=0.0))
            assert isinstance(settle(sender, receiver), Open)
        return sender, receiver

    yield make
    for end in made:
        end.close()


def settle(sender, receiver):
    """Has both ends talk until the Batcher may begin; the `Open` it begins with."""
    for _ in range(200):
        for message in sender.receive():
            return message
        assert list(receiver.receive()) == []
        sender.port.socket.poll(10)
    pytest.fail("no Open arrived")


def fill(sender, slot, seq, layout=LAYOUT, **changes):
    """Sends batch `seq`, of random bytes that depend on it, in `slot`."""
    arrays = sender.lend(slot, layout)
    rng = np.random.default_rng(seq)
    for array in arrays.values():
        array[...] = rng.integers(0, 200, array.shape)
    n = len(arrays["inputs"])
    fields = {"seq": seq, "slot": slot, "incarnation": 0, "version": 1, "version_step": 1, "passes": 0, "cursor": seq,
              "candidates": n, "last": False, "kind": "train", "ids": rng.integers(0, 99, n),
              "passes_of": rng.integers(0, 9, n), "weights": rng.random(n, np.float32),
              "dropped": rng.integers(0, 9, 4), "arrays": arrays}  # fmt: skip
    batch = Batch(**{**fields, **changes})
    crc = checksum(batch)
    assert sender.send(batch, "boss")
    return crc


def checksum(batch):
    arrays = [batch.ids, batch.passes_of, batch.weights, batch.dropped, batch.arrays["inputs"], batch.arrays["targets"]]
    return [zlib.crc32(np.ascontiguousarray(array)) for array in arrays]


def arrived(end, what, n):
    found = []
    for _ in range(200):
        found += end.receive()
        if len(found) >= n:
            return found
        end.port.socket.poll(10)
    pytest.fail(f"{n} {what} expected, {len(found)} arrived")


def taken(receiver, n=1):
    return arrived(receiver, "batches", n)


def credits(sender, n=1):
    return arrived(sender, "credits", n)


def nothing_arrives(receiver):
    for _ in range(5):
        receiver.port.socket.poll(10)
        assert list(receiver.receive()) == []


def test_arrays_are_lent_in_the_slot_and_arrive_there(make_ends):
    sender, receiver = make_ends()
    assert receiver.name == "memfd"
    lent = sender.lend(1, LAYOUT)["inputs"]
    fill(sender, 1, 0)
    (batch,) = taken(receiver)
    assert not batch.arrays["inputs"].flags.writeable
    lent[0, 0] = -1  # nobody may do this now: it shows that there is one array and no copy
    assert batch.arrays["inputs"][0, 0] == -1


def test_a_descriptor_is_some_hundred_bytes_whatever_the_batch_is(make_ends, ports):
    sender, _ = make_ends(size=4 << 20)
    fill(sender, 0, 0, {"inputs": ((1000, 1000), np.dtype(np.float32)), "targets": ((1000,), np.dtype(np.int64))})
    ports[1].socket.poll(1000)
    frames = ports[1].socket.recv_multipart()
    assert len(frames) == 1
    assert len(frames[0]) < 700


def test_a_thousand_batches_through_two_slots_with_delayed_and_reordered_releases(make_ends):
    sender, receiver = make_ends(slots=2)
    chance = random.Random(0)
    free, held, sent, seq = [0, 1], [], {}, 0
    while seq < 1000 or sent:
        while free and seq < 1000 and chance.random() < 0.8:
            sent[seq] = fill(sender, free.pop(chance.randrange(len(free))), seq)
            seq += 1
        held += receiver.receive()
        chance.shuffle(held)
        while held and chance.random() < 0.7:
            batch = held.pop()  # read only now, when the copy "has ended": it must still be whole
            assert checksum(batch) == sent.pop(batch.seq)
            receiver.release(batch)
        free += [message.slot for message in sender.receive()]
    assert sent == {}
    assert not sender.port.refused
    assert not receiver.port.refused


@pytest.mark.gpu
def test_a_thousand_batches_through_two_slots_to_the_gpu(make_ends):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs CUDA")
    from boss.pinned import pin

    sender, receiver = make_ends(slots=2, size=4 << 20, pin=pin)
    layout = {"inputs": ((256, 3000), np.dtype(np.float32)), "targets": ((256,), np.dtype(np.int64))}
    side, free, held, seq, expected = torch.cuda.Stream(), [0, 1], [], 0, {}
    while seq < 1000 or expected:
        while free and seq < 1000:
            slot = free.pop()
            expected[seq] = fill(sender, slot, seq, layout)[-2:]
            seq += 1
        for batch in receiver.receive():
            hosts = [torch.from_numpy(batch.arrays[name]) for name in ("inputs", "targets")]
            assert all(host.is_pinned() for host in hosts)
            with torch.cuda.stream(side):
                there = [host.to("cuda", non_blocking=True) for host in hosts]
                event = torch.cuda.Event()
                event.record(side)
            held.append((batch, there, event))
        for entry in [entry for entry in held if entry[2].query()]:
            held.remove(entry)
            receiver.release(entry[0])
            # Of every byte that is on the device now: the slot may be filled again.
            assert [zlib.crc32(array.cpu().numpy()) for array in entry[1]] == expected.pop(entry[0].seq)
        free += [message.slot for message in sender.receive()]
    assert expected == {}


def test_ids_and_weights_stay_when_the_slot_is_filled_again(make_ends):
    sender, receiver = make_ends(slots=1)
    first = fill(sender, 0, 0)
    (batch,) = taken(receiver)
    receiver.release(batch)
    assert len(credits(sender)) == 1
    fill(sender, 0, 1)
    taken(receiver)
    assert checksum(batch)[:4] == first[:4]


@pytest.mark.parametrize(
    "layout",
    [
        {"inputs": ((N, 2000), np.dtype(np.float32)), "targets": ((N,), np.dtype(np.int64))},
        {"inputs": ((N, 675), np.dtype(np.uint8)), "targets": ((N,), np.dtype(np.int64))},
        {"inputs": ((0, 9), np.dtype(np.uint8)), "targets": ((0,), np.dtype(np.int64))},
    ],
    ids=["too large", "no room beside it", "empty"],
)
def test_what_does_not_fit_a_slot_travels_as_frames(make_ends, layout):
    sender, receiver = make_ends(size=4160 if layout["inputs"][0][1] == 675 else PAGE)
    crc = fill(sender, 0, 0, layout)
    (batch,) = taken(receiver)
    assert checksum(batch) == crc
    receiver.release(batch)
    assert len(credits(sender)) == 1
    fill(sender, 0, 1)
    assert len(taken(receiver)) == 1


def descriptor(sender, receiver, **changes):
    """A good descriptor for slot 0, with `changes`."""
    n = 2
    places = (("inputs", "uint8", (n, 3), 0), ("targets", "int64", (n,), 64), ("ids", "int64", (n,), 128),
              ("weights", "float32", (n,), 192), ("dropped", "int64", (4,), 256),
              ("passes_of", "int64", (n,), 320))  # fmt: skip
    fields = {"kind": "train", "seq": 0, "incarnation": 0, "slot": 0, "generation": 1, "version": 0, "passes": 0,
              "version_step": 0, "cursor": 0, "candidates": n, "last": False, "places": places}  # fmt: skip
    return Filled(**{**fields, **changes})


def place(which, **changes):
    """The places of `descriptor` with the one of `which` changed."""
    return tuple(
        (changes.get("name", path), changes.get("dtype", dtype), changes.get("shape", shape), changes.get("start", at))
        if path == which
        else (path, dtype, shape, at)
        for path, dtype, shape, at in descriptor(None, None).places
    )


def test_the_descriptor_that_hostile_ones_are_made_of_is_good(make_ends):
    sender, receiver = make_ends()
    sender.port.send(descriptor(sender, receiver), "boss")
    assert len(taken(receiver)) == 1


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"generation": 0}, "stale"),
        ({"generation": 2}, "stale"),
        ({"slot": 2}, "stale"),
        ({"slot": 2**62}, "stale"),
        ({"places": place("inputs", start=PAGE)}, "place"),
        ({"places": place("inputs", start=PAGE - 5)}, "place"),
        ({"places": place("inputs", start=-64)}, "place"),
        ({"places": place("targets", start=65)}, "place"),
        ({"places": place("inputs", shape=(2, PAGE))}, "place"),
        ({"places": place("inputs", shape=(-2, -3))}, "place"),
        ({"places": place("inputs", shape=(2, 2**63))}, "place"),
        ({"places": place("inputs", shape=(2**32, 2**32))}, "place"),
        ({"places": place("inputs", dtype="object")}, "place"),
        ({"places": place("inputs", dtype="O")}, "place"),
        ({"places": place("inputs", name="targets")}, "place"),
        ({"places": place("inputs", shape=(3, 2))}, "fields"),
        ({"places": place("inputs", shape=())}, "fields"),
        ({"places": place("ids", dtype="float64")}, "fields"),
        ({"places": place("ids", name="other")}, "fields"),
        ({"places": ()}, "fields"),
    ],
)
def test_stale_and_hostile_descriptors_are_refused_and_counted(make_ends, changes, kind):
    sender, receiver = make_ends()
    sender.port.send(descriptor(sender, receiver, **changes), "boss")
    nothing_arrives(receiver)
    assert receiver.port.refused == {kind: 1}
    sender.port.send(descriptor(sender, receiver), "boss")  # the grant is still there for a good one
    assert len(taken(receiver)) == 1


def test_a_descriptor_is_checked_anew_when_it_differs_from_the_last_of_its_slot(make_ends):
    sender, receiver = make_ends()
    sender.port.send(descriptor(sender, receiver), "boss")
    receiver.release(taken(receiver)[0])
    sender.port.send(descriptor(sender, receiver, generation=2, places=place("inputs", start=PAGE)), "boss")
    nothing_arrives(receiver)
    assert receiver.port.refused == {"place": 1}
    sender.port.send(descriptor(sender, receiver, generation=2, places=place("ids", dtype="float64")), "boss")
    nothing_arrives(receiver)
    assert receiver.port.refused == {"place": 1, "fields": 1}


def test_batches_of_any_size_follow_each_other_in_one_slot(make_ends):
    sender, receiver = make_ends()
    for seq, n in enumerate((N, N, N - 2, N, 1, 1)):
        layout = {name: ((n, *shape[1:]), dtype) for name, (shape, dtype) in LAYOUT.items()}
        crc = fill(sender, 0, seq, layout)
        (batch,) = taken(receiver)
        assert len(batch.arrays["inputs"]) == n
        assert checksum(batch) == crc
        receiver.release(batch)
        credits(sender)


def test_a_slot_cannot_be_filled_twice_on_one_grant(make_ends):
    sender, receiver = make_ends()
    for seq in (0, 1):
        sender.port.send(descriptor(sender, receiver, seq=seq), "boss")
    assert [batch.seq for batch in taken(receiver)] == [0]
    nothing_arrives(receiver)
    assert receiver.port.refused == {"stale": 1}


def test_what_was_filled_before_the_stream_was_opened_again_is_stale(make_ends, ports):
    sender, receiver = make_ends()
    fill(sender, 0, 0)
    receiver.open(Open(incarnation=1, rank=0, slots=2, eval_every=0.0))
    nothing_arrives(receiver)
    assert receiver.port.refused == {"stale": 1}
    anew = SlotSender(ports[0], incarnation=1)
    settle(anew, receiver)
    fill(anew, 0, 0, incarnation=1)
    assert len(taken(receiver)) == 1
    anew.close()


def test_a_batcher_started_anew_gets_the_slots_that_are_free_and_the_others_once_they_are(make_ends, ports):
    sender, receiver = make_ends(slots=3)
    crc = fill(sender, 1, 0)
    (held,) = taken(receiver)  # the Boss still reads it when the Batcher dies
    fill(sender, 2, 1)
    receiver.open(Open(incarnation=1, rank=0, slots=3, eval_every=0.0))
    anew = SlotSender(ports[0], incarnation=1)
    opened = settle(anew, receiver)
    assert opened.busy == ((1, 0),)
    fill(anew, 0, 1, incarnation=1)
    assert checksum(held) == crc
    receiver.release(held, step=7)
    (credit,) = credits(anew)
    assert (credit.slot, credit.incarnation, credit.step) == (1, 1, 7)
    fill(anew, 1, 2, incarnation=1)
    mine = lambda incarnation, seq: incarnation == 1  # noqa: E731
    found = []
    while len(found) < 2:
        receiver.port.socket.poll(100)
        found += receiver.receive(mine)
    assert [batch.seq for batch in found] == [1, 2]
    assert receiver.port.refused == {"stale": 1}, "what the one before had filled"
    anew.close()


def test_what_was_meant_for_another_incarnation_or_place_is_refused(make_ends, ports):
    _, receiver = make_ends(opens=False)
    anew = SlotSender(ports[0], incarnation=1, can_open=lambda message: message.cursor < 10)
    fields = {"rank": 0, "slots": 2, "eval_every": 0.0}
    receiver.open(Open(incarnation=0, **fields))
    receiver.port.send(Credit(slot=0, seq=0, incarnation=0))
    receiver.open(Open(incarnation=1, cursor=10, **fields))
    receiver.open(Open(incarnation=1, cursor=9, **fields))
    receiver.open(Open(incarnation=1, cursor=8, **fields))
    assert settle(anew, receiver).cursor == 9
    anew.port.socket.poll(100)
    assert list(anew.receive()) == []
    assert anew.port.refused == {"stale": 3, "place": 1}
    anew.close()


@pytest.mark.parametrize("wrong", [{"seq": 1}, {"incarnation": 1}, {"slot": 1}])
def test_a_credit_for_anything_but_what_was_sent_is_refused(make_ends, wrong):
    sender, receiver = make_ends()
    fill(sender, 0, 0)
    receiver.port.send(Credit(**{"slot": 0, "seq": 0, "incarnation": 0, "generation": 9, **wrong}))
    sender.port.socket.poll(500)
    assert list(sender.receive()) == []
    assert sender.port.refused == {"stale": 1}


def test_a_credit_counts_once(make_ends):
    sender, receiver = make_ends()
    fill(sender, 0, 0)
    (batch,) = taken(receiver)
    receiver.release(batch)
    receiver.release(batch)
    assert len(credits(sender)) == 1
    sender.port.socket.poll(50)
    assert list(sender.receive()) == []


# -- fallbacks


@pytest.fixture
def refused_proc(monkeypatch):
    opened = os.open

    def refuse(path, *args, **options):
        if str(path).startswith("/proc/"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, *args, **options)

    monkeypatch.setattr(os, "open", refuse)


def small_shm(monkeypatch):
    allocate = os.posix_fallocate

    def limited(descriptor, begin, length):
        if "/dev/shm" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOSPC, "No space left on device")
        allocate(descriptor, begin, length)

    monkeypatch.setattr(os, "posix_fallocate", limited)


def ten_batches_arrive_whole(sender, receiver):
    for seq in range(10):
        crc = fill(sender, seq % 2, seq)
        (batch,) = taken(receiver)
        assert checksum(batch) == crc
        receiver.release(batch)
        credits(sender)


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_where_proc_refuses_a_file_serves_with_one_warning(make_ends, refused_proc, caplog):
    sender, receiver = make_ends()
    assert receiver.name == "file"
    ten_batches_arrive_whole(sender, receiver)
    (said,) = warnings_of(caplog)
    assert "Permission denied" in said
    assert "/proc" in said
    assert "hidepid" in said
    path = receiver.memory.path
    assert os.path.exists(path)
    receiver.close()
    assert not os.path.exists(path)


def test_where_dev_shm_has_no_room_either_frames_serve_with_one_warning(make_ends, refused_proc, monkeypatch, caplog):
    small_shm(monkeypatch)
    sender, receiver = make_ends()
    assert receiver.name == "frames"
    ten_batches_arrive_whole(sender, receiver)
    (said,) = warnings_of(caplog)
    assert "Permission denied" in said
    assert "No space left" in said
    assert "--shm-size" in said


def test_without_memfd_the_file_serves_at_once(make_ends, monkeypatch, caplog):
    def missing(name, flags):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(os, "memfd_create", missing)
    sender, receiver = make_ends()
    assert receiver.name == "file"
    fill(sender, 0, 0)
    taken(receiver)
    (said,) = warnings_of(caplog)
    assert "Function not implemented" in said


def test_an_answer_to_an_older_offer_is_ignored(make_ends, caplog):
    sender, receiver = make_ends()
    sender.port.send(Unmapped(memory="/proc/1/fd/1", reason="late"), "boss")
    nothing_arrives(receiver)
    assert receiver.name == "memfd"


def test_memory_is_pinned_while_it_is_used(make_ends, refused_proc):
    pinned = []

    def pin(memory):
        pinned.append(memory.kind)
        return lambda: pinned.append(f"no {memory.kind}")

    _, receiver = make_ends(pin=pin)
    assert pinned == ["memfd", "no memfd", "file"]
    receiver.close()
    assert pinned[-1] == "no file"


def test_the_ends_of_frames_and_slots_understand_each_other(ports):
    sender, receiver = SlotSender(ports[0]), FrameCarrier(ports[1])
    receiver.open(Open(incarnation=0, rank=0, slots=1, eval_every=0.0))
    sender.port.socket.poll(500)
    assert len(list(sender.receive())) == 1
    crc = fill(sender, 0, 0)
    receiver.port.socket.poll(500)
    (batch,) = receiver.receive()
    assert checksum(batch) == crc
    assert sender.bytes_sent == N * WIDTH * 4 + N * 8


def test_memory_that_is_gone_before_it_is_attached_has_a_fallback(make_ends):
    sender, receiver = make_ends(opens=False)
    assert isinstance(receiver.memory, Memory)
    os.close(receiver.memory._descriptor)
    receiver.memory._descriptor = os.open("/dev/null", os.O_RDONLY)
    receiver.open(Open(incarnation=0, rank=0, slots=2, eval_every=0.0))
    settle(sender, receiver)
    assert receiver.name == "file"
