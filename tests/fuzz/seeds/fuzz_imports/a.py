import torch, numpy as np
from a.b import (c,
 d)
x = """import y"""
try:
  import z
except ImportError: pass
