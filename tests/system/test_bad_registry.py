"""Registries that refuse, fail, cut, lie and redirect: the right retry or one clear error, and nothing half-made stays."""

import base64
import json
import random
import shutil
import ssl
import subprocess
import threading
import time
import urllib.parse

from plain_image import PlainImage, put_index
from registry_server import Answer, OddRegistry, digest_of
from trail_case import TrailCase, main

REPOSITORY = "lab/model"
USER, PASSWORD = "somebody", "open-sesame-4711"
BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


def denied(status, headers=None, code="UNAUTHORIZED"):
    return Answer(status, headers or {}, json.dumps({"errors": [{"code": code, "message": "not for you"}]}).encode())


class RegistryCase(TrailCase):
    """A state folder of the test's own, and no credentials but those that it writes."""

    def setUp(self):
        super().setUp()
        self.home = self.folder / "state"
        self.store = self.home / "store"
        self.user_home = self.folder / "user"
        self.user_home.mkdir()

    def registry(self, decide=None, **options):
        registry = OddRegistry(decide, **options)
        self.addCleanup(registry.close)
        return registry

    def reference(self, registry, tag="1"):
        return f"{registry.host}/{REPOSITORY}:{tag}"

    def log_in(self, host, **entry):
        entry = entry or {"auth": base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()}
        folder = self.user_home / ".docker"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps({"auths": {host: entry}}))

    def exchange(self, *words, env=None):
        environment = {"HOME": str(self.user_home), "XDG_RUNTIME_DIR": str(self.folder / "run"), "DOCKER_CONFIG": "",
                       "REGISTRY_AUTH_FILE": "", "XDG_CONFIG_HOME": "", **(env or {})}
        done = self.trail("image", *words, "--json", env=environment)
        self.assertNotIn(PASSWORD, str(done))
        self.assertNotIn(BASIC[6:], str(done))
        return done

    def pull(self, registry, env=None):
        return self.exchange("pull", self.reference(registry), env=env)

    def assert_one_error(self, done, *says):
        self.assertEqual(done.code, 1, done)
        self.assertEqual(done.err.count("error:"), 1, done)
        for text in says:
            self.assertIn(text, done.err)

    def assert_store_is_clean(self):
        self.trail("image", "verify-store", check=0)

    def parts(self):
        return [path.name for path in (self.store / "downloads").glob("*")]


class BadPull(RegistryCase):
    def pulls(self, decide=None, image=None, **options):
        """The image arrives whole, and nothing of the way is left."""
        registry = self.registry(decide, **options)
        image = image or PlainImage()
        image.put_into(registry)
        done = self.pull(registry)
        self.assertEqual(done.code, 0, done)
        self.assertEqual(done.json["digest"], image.digest)
        self.assertEqual(self.parts(), [])
        self.assert_store_is_clean()
        return registry, done

    def refuses(self, decide, *says, image=None, **options):
        """One error that names host and repository; no image is there, and later the same pull works."""
        registry = self.registry(decide, **options)
        image = image or PlainImage()
        image.put_into(registry)
        done = self.pull(registry)
        self.assert_one_error(done, registry.host, REPOSITORY, *says)
        self.assertEqual(self.trail("image", "list", "--json", check=0).json["images"], [])
        self.assert_store_is_clean()
        registry.decide = lambda asked: None
        self.assertEqual(self.pull(registry).code, 0)
        self.assertEqual(self.parts(), [])
        self.assert_store_is_clean()
        return registry

    def test_an_image_comes_whole(self):
        _, done = self.pulls()
        self.assertEqual(done.json["fetched_bytes"], PlainImage().size)

    def test_who_is_nobody_is_told_to_log_in(self):
        self.refuses(lambda asked: denied(401, {"WWW-Authenticate": 'Basic realm="r"'}), "wants credentials", "podman login")

    def test_credentials_that_are_refused_are_named_by_their_file(self):
        registry = self.registry(lambda asked: denied(401, {"WWW-Authenticate": 'Basic realm="r"'}))
        self.log_in(registry.host)
        self.assert_one_error(self.pull(registry), registry.host, REPOSITORY, ".docker/config.json", "refused")
        self.assertEqual(registry.asked[-1].headers["Authorization"], BASIC)

    def test_what_is_forbidden_is_said_so_and_not_asked_again(self):
        registry = self.refuses(lambda asked: denied(403, code="DENIED") if "manifests" in asked.path else None,
                                "does not allow", "DENIED: not for you")
        self.assertEqual(sum(asked.path.endswith("manifests/1") for asked in registry.asked), 2)

    def test_an_image_that_is_not_there_is_named(self):
        registry = self.registry()
        self.assert_one_error(self.pull(registry), f"no image {REPOSITORY}:1", registry.host)

    def test_a_blob_that_is_not_there_is_named(self):
        self.refuses(lambda asked: denied(404, code="BLOB_UNKNOWN") if PlainImage().biggest in asked.path else None,
                     PlainImage().biggest[:19], "404")

    def test_too_many_requests_are_made_again_when_the_registry_says(self):
        times = {}

        def decide(asked):
            times.setdefault(asked.path, []).append(time.monotonic())
            return Answer(429, {"Retry-After": "2"}) if asked.number == 1 and asked.path != "/v2/" else None

        registry, _ = self.pulls(decide)
        for path in (f"/v2/{REPOSITORY}/manifests/1", f"/v2/{REPOSITORY}/blobs/{PlainImage().biggest}"):
            self.assertGreater(times[path][1] - times[path][0], 1.9, path)

    def test_broken_answers_are_asked_for_again(self):
        for status in (500, 502, 503):
            with self.subTest(status=status):
                shutil.rmtree(self.home, ignore_errors=True)
                self.pulls(lambda asked, status=status: Answer(status) if asked.number == 1 and asked.path != "/v2/" else None)

    def test_a_registry_that_stays_broken_is_named(self):
        began = time.monotonic()
        self.refuses(lambda asked: Answer(503) if "manifests" in asked.path else None, "503")
        self.assertLess(time.monotonic() - began, 60)

    def test_a_registry_whose_blobs_stay_broken_is_named(self):
        began = time.monotonic()
        self.refuses(lambda asked: Answer(502) if PlainImage().biggest in asked.path else None, "502")
        self.assertLess(time.monotonic() - began, 60)

    def test_too_many_requests_to_the_end_are_named(self):
        self.refuses(lambda asked: Answer(429, {"Retry-After": "0"}) if "manifests" in asked.path else None, "429", "too many requests")

    def test_blobs_that_break_off_go_on_where_they_broke(self):
        seed = random.randrange(1 << 32)
        chance = random.Random(seed)

        def cut(asked):
            return Answer(cut_after=chance.randrange(1, 400_000)) if "blobs" in asked.path and asked.number % 3 else None

        with self.subTest(seed=seed):
            _, done = self.pulls(cut)
            self.assertEqual(done.json["fetched_bytes"], PlainImage().size)

    def test_a_blob_that_never_ends_is_one_error_and_what_had_come_is_not_fetched_again(self):
        image = PlainImage((12_000_000, 1_000))
        registry = self.registry(lambda asked: Answer(503) if image.biggest in asked.path and "bytes=0-" not in asked.headers.get("Range", "") else None)
        image.put_into(registry)
        done = self.pull(registry)
        self.assert_one_error(done, registry.host, REPOSITORY, "503")
        registry.decide = lambda asked: None
        again = self.pull(registry)
        self.assertEqual(again.code, 0, again)
        self.assertLess(again.json["fetched_bytes"], image.size - 4_000_000)
        self.assertEqual(self.parts(), [])
        self.assert_store_is_clean()

    def test_a_pull_that_is_killed_goes_on_where_it_was(self):
        image = PlainImage((12_000_000, 1_000))
        gone = threading.Event()
        self.addCleanup(gone.set)

        def stall(asked):
            if image.biggest in asked.path and "bytes=0-" not in asked.headers.get("Range", ""):
                gone.wait(30)
            return None

        registry = self.registry(stall)
        image.put_into(registry)
        process = self.start("image", "pull", self.reference(registry))
        part = self.store / "downloads" / f"{image.biggest[7:]}.part.journal"
        self.wait_for("the first megabytes", lambda: part.exists() and sum(memoryview(part.read_bytes()[24:]).cast("I")) >= 8 << 20)
        process.kill()
        process.wait()
        gone.set()
        done = self.pull(registry)
        self.assertEqual(done.code, 0, done)
        rest = max(map(len, image.layers)) - (8 << 20)
        self.assertIn(done.json["fetched_bytes"], (rest, image.size - (8 << 20)))  # the small layer may have been there
        self.assertEqual(self.parts(), [])
        self.assert_store_is_clean()

    def test_three_that_pull_the_same_at_once_all_have_it(self):
        registry = self.registry(lambda asked: time.sleep(0.2) if "blobs" in asked.path else None)
        image = PlainImage().put_into(registry)
        processes = [self.start("image", "pull", self.reference(registry)) for _ in range(3)]
        ids = {process.communicate(timeout=120)[0].strip() for process in processes}
        self.assertEqual([process.returncode for process in processes], [0, 0, 0])
        self.assertEqual(len(ids), 1)
        self.assertEqual(self.pull(registry).json["digest"], image.digest)
        self.assertEqual(self.parts(), [])
        self.assert_store_is_clean()

    def test_a_blob_damaged_on_the_way_is_fetched_again(self):
        _, done = self.pulls(lambda asked: Answer(flip=True) if PlainImage().biggest in asked.path and asked.number == 1 else None)
        self.assertGreater(done.json["fetched_bytes"], PlainImage().size)

    def test_a_blob_that_stays_damaged_is_refused(self):
        self.refuses(lambda asked: Answer(flip=True) if PlainImage().biggest in asked.path else None, PlainImage().biggest[:19])

    def test_a_manifest_damaged_on_the_way_is_fetched_again(self):
        self.pulls(lambda asked: Answer(flip=True) if "manifests" in asked.path and asked.number == 1 else None)

    def test_a_manifest_that_stays_damaged_is_refused(self):
        self.refuses(lambda asked: Answer(flip=True) if "manifests" in asked.path else None, "digest")

    def test_a_config_that_stays_damaged_is_refused(self):
        config = digest_of(PlainImage().config)
        self.refuses(lambda asked: Answer(flip=True) if config in asked.path else None, config)

    def test_a_registry_without_ranges_works(self):
        self.pulls(lambda asked: Answer(ignore_range=True))

    def test_of_an_index_the_one_for_this_machine_is_taken(self):
        registry = self.registry()
        arm, own = PlainImage(seed=2, architecture="arm64").put_into(registry), PlainImage().put_into(registry)
        put_index(registry, [arm, own])
        self.assertEqual(self.pull(registry).json["digest"], own.digest)
        put_index(registry, [arm])
        self.assert_one_error(self.pull(registry), "linux/amd64", "linux/arm64")

    def test_where_blobs_are_redirected_to_no_credentials_arrive(self):
        elsewhere = self.registry()
        image = PlainImage().put_into(elsewhere)
        away = elsewhere.host.replace("127.0.0.1", "localhost")

        def decide(asked):
            if asked.headers.get("Authorization") != BASIC:
                return denied(401, {"WWW-Authenticate": 'Basic realm="r"'})
            return Answer(307, {"Location": f"http://{away}{asked.path}"}) if "blobs" in asked.path else None

        registry = self.registry(decide)
        image.put_into(registry)
        self.log_in(registry.host)
        done = self.pull(registry)
        self.assertEqual(done.code, 0, done)
        self.assertGreaterEqual(elsewhere.count("GET"), len(image.layers))
        self.assertEqual([asked.headers["Authorization"] for asked in elsewhere.asked if "Authorization" in asked.headers], [])

    def test_who_is_redirected_to_can_ask_for_no_credentials(self):
        thief = self.registry(lambda asked: Answer(200, {}, b'{"token": "t"}'))
        elsewhere = self.registry(lambda asked: denied(401, {"WWW-Authenticate": f'Bearer realm="http://{thief.host}/token",service="s"'}))
        away = elsewhere.host.replace("127.0.0.1", "localhost")
        registry = self.registry(lambda asked: Answer(307, {"Location": f"http://{away}{asked.path}"}) if "manifests" in asked.path else None)
        self.log_in(registry.host)
        self.assert_one_error(self.pull(registry), registry.host, REPOSITORY, away)
        self.assertEqual([asked.path for asked in thief.asked], [])
        self.assertEqual([asked.headers["Authorization"] for asked in elsewhere.asked if "Authorization" in asked.headers], [])

    def test_a_port_where_nobody_listens_is_one_error(self):
        registry = OddRegistry()
        registry.close()
        self.assert_one_error(self.exchange("pull", f"{registry.host}/{REPOSITORY}:1"), registry.host, REPOSITORY, "hint:")


class Tokens(RegistryCase):
    """A registry that wants bearer tokens of a server at another port; each token is good for `uses` requests."""

    def serve(self, uses=1 << 30, form=False):
        self.issued, self.used, self.asked_for = 0, {}, []

        def give_token(asked):
            values = dict(urllib.parse.parse_qsl(asked.body.decode())) if form else asked.query
            right = values.get("refresh_token") == PASSWORD if form else asked.headers.get("Authorization") == BASIC
            self.asked_for.append((asked.method, values))
            if not right:
                return denied(401)
            self.issued += 1
            return Answer(200, {}, json.dumps({"access_token" if form else "token": f"t{self.issued}", "expires_in": 300}).encode())

        def decide(asked):
            token = asked.headers.get("Authorization", "")
            self.used[token] = self.used.get(token, 0) + 1
            if token.startswith("Bearer t") and self.used[token] <= uses:
                return None
            return denied(401, {"WWW-Authenticate": f'Bearer realm="http://{tokens.host}/token",service="test",scope="repository:{REPOSITORY}:pull"'})

        tokens = self.registry(give_token)
        registry = self.registry(decide)
        return registry

    def test_a_token_is_asked_for_once_with_the_credentials_of_the_registry(self):
        registry = self.serve()
        self.log_in(registry.host)
        PlainImage().put_into(registry)
        self.assertEqual(self.pull(registry).code, 0)
        self.assertEqual(self.asked_for, [("GET", {"client_id": "startrail", "service": "test", "scope": f"repository:{REPOSITORY}:pull"})])

    def test_a_token_that_ends_on_the_way_is_renewed(self):
        registry = self.serve(uses=4)
        self.log_in(registry.host)
        image = PlainImage((20_000_000, 9_000_000, 1_000)).put_into(registry)
        done = self.pull(registry)
        self.assertEqual(done.code, 0, done)
        self.assertEqual(done.json["fetched_bytes"], image.size)
        self.assertGreater(self.issued, 1)

    def test_a_refresh_token_is_exchanged_by_post(self):
        registry = self.serve(form=True)
        self.log_in(registry.host, identitytoken=PASSWORD)
        PlainImage().put_into(registry)
        self.assertEqual(self.pull(registry).code, 0)
        self.assertEqual([(method, form["grant_type"]) for method, form in self.asked_for], [("POST", "refresh_token")])

    def test_a_token_server_that_refuses_is_one_error(self):
        registry = self.serve()
        PlainImage().put_into(registry)
        self.assert_one_error(self.pull(registry), registry.host, REPOSITORY, "wants credentials")


class BadPush(RegistryCase):
    """A pulled image is pushed elsewhere."""

    def setUp(self):
        super().setUp()
        registry = self.registry()
        self.image = PlainImage((3_000_000, 200_000))
        self.image.put_into(registry)
        done = self.pull(registry)
        self.assertEqual(done.code, 0, done)
        self.id = done.json["id"]

    def push(self, registry, tag="1", env=None):
        return self.exchange("push", self.id, self.reference(registry, tag), env=env)

    def pushes(self, decide=None, **options):
        """What was pushed is whole: the registry has every blob of its manifest."""
        registry = self.registry(decide, **options)
        done = self.push(registry)
        self.assertEqual(done.code, 0, done)
        self.assertEqual(registry.tags["1"], done.json["digest"])
        manifest = json.loads(registry.manifests[done.json["digest"]][1])
        for blob in [manifest["config"], *manifest["layers"]]:
            self.assertEqual(len(registry.blobs[blob["digest"]]), blob["size"])
        return registry, done

    def biggest_upload(self, asked):
        """PUT or PATCH with much of the big layer."""
        return asked.method in ("PUT", "PATCH") and "/uploads/" in asked.path and int(asked.headers.get("Content-Length", 0)) > 1_000_000

    def break_once(self, after):
        broken = []

        def read_at_most(asked):
            if self.biggest_upload(asked) and not broken:
                broken.append(asked)
                return after
            return None

        return read_at_most

    def test_what_is_pushed_arrives_and_twice_is_once(self):
        registry, done = self.pushes()
        self.assertGreater(done.json["sent_bytes"], 3_000_000)
        again = self.push(registry)
        self.assertEqual(again.json["sent_bytes"], 0)
        self.assertEqual(again.json["digest"], done.json["digest"])

    def test_an_upload_that_breaks_goes_on_where_it_broke(self):
        registry, _ = self.pushes(read_at_most=self.break_once(700_000))
        rest = [asked for asked in registry.asked if asked.method == "PATCH"]
        self.assertEqual([asked.headers["Content-Range"].split("-")[0] for asked in rest], ["700000"])

    def test_an_upload_that_the_registry_forgot_begins_again(self):
        registry, _ = self.pushes(lambda asked: denied(404, code="BLOB_UPLOAD_UNKNOWN") if asked.method == "GET" and "/uploads/" in asked.path else None,
                                  read_at_most=self.break_once(700_000))
        self.assertEqual(registry.count("PATCH"), 0)

    def test_pieces_that_do_not_fit_together_are_sent_again_as_a_whole(self):
        def lie(asked):
            if asked.method == "GET" and "/uploads/" in asked.path:
                return Answer(204, {"Location": asked.path, "Range": "0-599999"})
            return None

        self.pushes(lie, read_at_most=self.break_once(700_000))

    def test_a_registry_that_fails_during_an_upload_is_tried_again(self):
        for status in (500, 503, 429):
            with self.subTest(status=status):
                seen = []

                def decide(asked, status=status, seen=seen):
                    if self.biggest_upload(asked) and not seen:
                        seen.append(asked)
                        return Answer(status, {"Retry-After": "1"})
                    return None

                self.pushes(decide)
                self.assertEqual(len(seen), 1)

    def test_bodies_that_are_too_large_are_sent_in_chunks(self):
        def decide(asked):
            return Answer(413) if asked.method == "PUT" and self.biggest_upload(asked) else None

        registry, _ = self.pushes(decide)
        self.assertGreater(registry.count("PATCH"), 0)

    def test_a_registry_that_takes_chunks_and_keeps_none_is_given_up(self):
        def decide(asked):
            if asked.method == "PUT" and self.biggest_upload(asked):
                return Answer(413)
            return Answer(202, {"Location": asked.path, "Range": "0-99"}) if asked.method == "PATCH" else None

        registry = self.registry(decide)
        self.assert_one_error(self.push(registry), registry.host, REPOSITORY, "has no more than")
        self.assertLess(registry.count("PATCH"), 100)

    def test_without_a_referrers_api_statements_are_listed_once_under_the_fallback_tag(self):
        registry, done = self.pushes()
        self.push(registry)
        tag = done.json["digest"].replace(":", "-")
        self.assertEqual(set(registry.tags), {"1", tag})
        listed = [entry["digest"] for entry in json.loads(registry.manifests[registry.tags[tag]][1])["manifests"]]
        self.assertEqual(len(listed), 2)
        self.assertEqual(len(set(listed)), 2)
        self.assertLessEqual(set(listed), set(registry.manifests))

    def test_with_a_referrers_api_there_is_no_fallback_tag(self):
        registry, _ = self.pushes(referrers=True)
        self.assertEqual(set(registry.tags), {"1"})

    def test_a_registry_that_stays_broken_is_one_error(self):
        registry = self.registry(lambda asked: Answer(500) if self.biggest_upload(asked) else None)
        self.assert_one_error(self.push(registry), registry.host, REPOSITORY, "500")
        self.assertEqual(registry.tags, {})

    def test_who_may_not_push_is_told_so(self):
        registry = self.registry(lambda asked: denied(403, code="DENIED") if asked.method == "POST" else None)
        self.assert_one_error(self.push(registry), registry.host, REPOSITORY, "does not allow pushing", "DENIED")
        self.assertEqual(registry.tags, {})

    def test_a_token_for_pushing_is_asked_for(self):
        scopes = []

        def give_token(asked):
            scopes.append(asked.query["scope"])
            return Answer(200, {}, b'{"token": "t"}')

        tokens = self.registry(give_token)
        self.pushes(lambda asked: None if asked.headers.get("Authorization") == "Bearer t"
                    else denied(401, {"WWW-Authenticate": f'Bearer realm="http://{tokens.host}/token",service="s"'}))
        self.assertEqual(scopes, [f"repository:{REPOSITORY}:pull,push"])

    def test_a_digest_is_nothing_to_push_to(self):
        done = self.exchange("push", self.id, f"127.0.0.1:1/{REPOSITORY}@sha256:{'a' * 64}")
        self.assertEqual(done.code, 2, done)
        self.assertIn("tag", done.err)


class Tls(RegistryCase):
    def test_a_certificate_that_nobody_vouches_for_is_refused_and_one_that_is_named_is_taken(self):
        certificate = self.folder / "certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", self.folder / "key.pem", "-out", certificate],
                       check=True, capture_output=True)
        registry = self.registry()
        image = PlainImage().put_into(registry)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, self.folder / "key.pem")
        registry.server.socket = context.wrap_socket(registry.server.socket, server_side=True)
        self.assert_one_error(self.pull(registry), registry.host, "certificate", "SSL_CERT_FILE")
        done = self.pull(registry, env={"SSL_CERT_FILE": str(certificate)})
        self.assertEqual(done.code, 0, done)
        self.assertEqual(done.json["digest"], image.digest)


if __name__ == "__main__":
    main()
