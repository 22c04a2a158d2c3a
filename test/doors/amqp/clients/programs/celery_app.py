# The Celery application of the tests: its broker and its results are on the server of BROKER_URL.
import os
import pathlib
import time

from celery import Celery

app = Celery("tests", broker=os.environ["BROKER_URL"], backend="rpc://")
app.conf.update(
    broker_connection_retry_on_startup=True,
    worker_prefetch_multiplier=1,
    task_publish_retry=True,
    result_expires=60,
)
# A chord counts its parts in a backend that has counters: a folder has, and needs no other server.
app.conf.result_backend = f"file://{os.environ['FOLDER']}"


@app.task
def add(x, y):
    return x + y


@app.task
def total(numbers):
    return sum(numbers)


@app.task(bind=True, max_retries=3)
def flaky(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0.2)
    return self.request.retries


@app.task
def now():
    return time.time()


@app.task(acks_late=True, reject_on_worker_lost=True)
def late():
    folder = pathlib.Path(os.environ["FOLDER"])
    marker = folder / "started"
    is_retry = marker.exists()
    # Before the line that the test waits for: it kills this worker as soon as it reads that line.
    marker.touch()
    print("started by", os.getpid(), flush=True)
    if not is_retry:
        time.sleep(600)
    return "done"
