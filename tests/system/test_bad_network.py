"""Networks that drop, stall, cut, lie and refuse: a build completes or says one clear thing, and the next one completes."""

import random
import time

from store_case import StoreCase
from trail_case import main
from wheel_server import Behaviour


class BadNetwork(StoreCase):
    def completes(self, decide, each_byte_once=True, **lock_options):
        server = self.serve(decide)
        self.build(self.lock_file(server, **lock_options))
        if each_byte_once:
            self.assertEqual(server.sent(), self.total)
        self.assert_clean()
        return server

    def fails_then_completes(self, decide, *says, files=None):
        server = self.serve(decide, files=files)
        lock = self.lock_file(server)
        done = self.build(lock, check=1)
        self.assert_one_error(done, *says)
        self.assert_clean("right after the failure")
        there = self.arrived()
        server.decide, server.files = lambda request: None, self.wheels
        server.forget()
        self.build(lock)
        self.assertEqual(self.asked_again(server, there), [])
        self.assert_clean()

    def biggest(self):
        return max(self.sizes, key=self.sizes.get)

    def test_connections_that_drop_in_the_middle_are_taken_up_where_they_broke(self):
        seed = random.randrange(1 << 32)
        chance = random.Random(seed)
        with self.subTest(seed=seed):
            self.completes(lambda request: Behaviour(send_at_most=chance.randrange(1, 400_000)) if request.number % 3 else None)

    def test_a_stalled_stream_is_replaced(self):
        began = time.monotonic()
        self.completes(lambda request: Behaviour(send_at_most=100_000, then_silence=True) if request.number == 2 else None)
        self.assertLess(time.monotonic() - began, 40)

    def test_a_file_that_is_too_short_is_named(self):
        short = {**self.wheels, self.biggest(): self.wheels[self.biggest()][:-5000]}
        self.fails_then_completes(None, self.biggest(), files=short)

    def test_bytes_damaged_on_the_way_are_fetched_again(self):
        server = self.completes(lambda request: Behaviour(flip=request.number == 3), each_byte_once=False)
        self.assertGreater(server.sent(), self.total)

    def test_bytes_that_stay_damaged_are_a_clear_error(self):
        self.fails_then_completes(lambda request: Behaviour(flip=request.name == self.biggest()), self.biggest(), "SHA-256")

    def test_an_answer_that_is_another_file_is_a_clear_error(self):
        page = b"<html>sign in to the network of this hotel</html>"
        self.fails_then_completes(lambda request: Behaviour(content=page, ignore_range=True) if request.name == self.biggest() else None,
                                  self.biggest())

    def test_busy_and_broken_servers_are_asked_again(self):
        for status in (429, 500, 502, 503):
            with self.subTest(status=status):
                self.empty_store()
                self.completes(lambda request, status=status: Behaviour(status=status) if request.number in (1, 4, 6) else None)

    def test_retry_after_is_waited_for(self):
        times = []

        def decide(request):
            if request.name == self.biggest():
                times.append(time.monotonic())
                if len(times) == 1:
                    return Behaviour(status=503, headers={"Retry-After": "3"})
            return None

        self.completes(decide)
        self.assertGreater(times[1] - times[0], 2.9)

    def test_a_server_that_stays_broken_is_named(self):
        self.fails_then_completes(lambda request: Behaviour(status=502) if request.name == self.biggest() else None,
                                  self.biggest(), "502", "127.0.0.1")

    def test_a_server_without_ranges_works(self):
        self.completes(lambda request: Behaviour(ignore_range=True))

    def test_a_wheel_that_moved_is_found_in_the_index(self):
        server = self.serve()
        self.build(self.lock_file(server, folder="gone"))
        self.assertEqual(server.sent(), self.total)
        self.assert_clean()

    def test_a_wheel_that_is_nowhere_is_named(self):
        server = self.serve()
        most = {name: content for name, content in self.wheels.items() if name != self.biggest()}
        server.files = most
        lock = self.lock_file(server)
        self.assert_one_error(self.build(lock, check=1), self.biggest(), "hint:")
        self.assert_clean()
        server.files = self.wheels
        self.build(lock)
        self.assert_clean()

    def test_nobody_answers(self):
        server = self.serve()
        lock = self.lock_file(server)
        server.close()
        self._cleanups = [entry for entry in self._cleanups if entry[0] != server.close]
        began = time.monotonic()
        self.assert_one_error(self.build(lock, check=1), "127.0.0.1", "hint:")
        self.assertLess(time.monotonic() - began, 60)
        self.assert_clean()


if __name__ == "__main__":
    main()
