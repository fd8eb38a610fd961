// The compiler that runs inside, as Python source.
#pragma once

namespace startrail::image {

// Arguments: a JSON list of [source, target] pairs, and how many processes. Targets appear whole or not at all.
inline constexpr const char* k_bytecode_script = R"python(
import json
import os
import py_compile
import sys
import warnings

warnings.simplefilter("ignore")
with open(sys.argv[1], encoding="utf-8") as listing:
    pairs = json.load(listing)
processes = int(sys.argv[2])


def compile_some(mine):
    for source, target in mine:
        try:
            # unchecked-hash (PEP 552): sources in an image never change, so no run needs to look at them.
            py_compile.compile(
                source, target, doraise=True, quiet=2,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )
        except Exception:
            pass  # not Python for this interpreter: the import, if there is one, says why


children = []
for number in range(processes):
    child = os.fork()
    if child == 0:
        compile_some(pairs[number::processes])
        os._exit(0)
    children.append(child)
failed = [child for child in children if os.waitpid(child, 0)[1] != 0]
sys.exit(1 if failed else 0)
)python";

}  // namespace startrail::image
