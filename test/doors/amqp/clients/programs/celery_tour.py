import time

from celery import chain, chord, group
from celery_app import add, flaky, now, total

assert add.delay(2, 3).get(timeout=60) == 5
assert flaky.delay().get(timeout=60) == 2, "two retries, then a result"
asked = time.time()
assert now.apply_async(countdown=1).get(timeout=60) - asked >= 1, "not before its ETA"
assert group(add.s(n, n) for n in range(5)).apply_async().get(timeout=60) == [0, 2, 4, 6, 8]
assert chain(add.s(1, 2), add.s(3)).apply_async().get(timeout=60) == 6
assert chord([add.s(n, 1) for n in range(4)], total.s()).apply_async().get(timeout=60) == 10
print("all good")
