"""What the parallel executor uses of Ray, over forked processes, which start in milliseconds.

An actor is a fork of the test process with a pipe. What is sent is pickled, as Ray does; a process
that is killed is an ``ActorDiedError``, as with Ray. The same tests that run on this run on Ray.
"""

import multiprocessing
import os
import pickle
import signal
import sys
import traceback
from multiprocessing import connection
from queue import SimpleQueue
from threading import Thread
from types import ModuleType, SimpleNamespace

import cloudpickle
import cv2


class RayError(Exception):
    pass


class ActorDiedError(RayError):
    pass


class RayTaskError(RayError):
    def __init__(self, cause, text):
        super().__init__(cause, text)
        self.cause = cause


class Ref:
    """A value (``put``), or the next answer of an actor."""

    def __init__(self, actor=None, value=None):
        self.actor, self.value, self.ready = actor, value, actor is None

    def fill(self, value):
        self.value, self.ready = value, True

    def __reduce__(self):
        return pickle.loads, (self.value,)


class Actor:
    """A process that answers calls in order."""

    alive: list["Actor"] = []

    def __init__(self, cls):
        fork = multiprocessing.get_context("fork")
        self.pipe, other = fork.Pipe()
        for number in (0, 1):  # a change to 1 ends OpenCV's threads, which a child would wait for
            cv2.setNumThreads(number)
        self.process = fork.Process(target=serve, args=(cls, other), daemon=False)
        self.process.start()
        other.close()
        self.asked = []
        Actor.alive.append(self)

    def __getattr__(self, name):
        return SimpleNamespace(remote=lambda *arguments: self.call(name, arguments))

    def call(self, name, arguments):
        ref = Ref(self)
        self.asked.append(ref)
        try:
            self.pipe.send_bytes(cloudpickle.dumps((name, arguments)))
        except OSError:
            self.lost()
        return ref

    def answer(self):
        try:
            self.asked[0].fill(self.pipe.recv_bytes())
            self.asked.pop(0)
        except (EOFError, OSError):
            self.lost()

    def lost(self):
        for ref in self.asked:
            ref.fill(cloudpickle.dumps((False, ActorDiedError("killed"))))
        self.asked.clear()


def receive(pipe, calls):
    while True:
        try:
            calls.put(pipe.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)


def serve(cls, pipe):
    os.setpgid(0, 0)
    calls, worker = SimpleQueue(), cls()
    # beside the work: else both sides could send more than a pipe holds, and none would receive
    Thread(target=receive, args=(pipe, calls), daemon=True).start()
    while True:
        name, arguments = pickle.loads(calls.get())
        try:
            answer = True, getattr(worker, name)(*arguments)
        except Exception as error:
            answer = False, RayTaskError(error, traceback.format_exc())
        pipe.send_bytes(cloudpickle.dumps(answer))


def put(value):
    return Ref(value=cloudpickle.dumps(value))


def get(ref):
    worked, value = pickle.loads(ref.value)
    if not worked:
        raise value
    return value


def wait(refs, num_returns=1, timeout=None):
    for number in range(2):
        waiting = {ref.actor.pipe: ref.actor for ref in refs if not ref.ready}
        some = any(ref.ready for ref in refs)
        for pipe in connection.wait(list(waiting), 0 if number or some else timeout):
            waiting[pipe].answer()
    ready = [ref for ref in refs if ref.ready]
    return ready, [ref for ref in refs if not ref.ready]


def kill(actor, no_restart=True):
    actor.process.kill()
    actor.process.join()
    actor.pipe.close()
    if actor in Actor.alive:
        Actor.alive.remove(actor)


def remote(cls):
    made = SimpleNamespace(remote=lambda: Actor(cls))
    made.options = lambda **_: made
    return made


def install(monkeypatch):
    """``import ray`` gives this, until the test is over."""
    ray = ModuleType("ray")
    ray.exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
    ray.util = SimpleNamespace(register_serializer=lambda *_, **__: None)
    ray.is_initialized = lambda: True
    ray.cluster_resources = lambda: {"CPU": os.cpu_count()}
    for function in (put, get, wait, kill, remote):
        setattr(ray, function.__name__, function)
    monkeypatch.setitem(sys.modules, "ray", ray)


def workers(monkeypatch, number):
    """The changes of a config for a run on so many workers; none for None."""
    if number is None:
        return {}
    install(monkeypatch)
    return {"executor": {"type": "RayExecutor", "num_workers": number}}


def kill_one(number):
    alive = [actor for actor in Actor.alive if actor.process.is_alive()]
    os.kill(alive[number % len(alive)].process.pid, signal.SIGKILL)
