#include "project/import_names.hpp"

#include <fmt/format.h>

#include "base/files.hpp"
#include "project/text_scan.hpp"

namespace startrail::project {
namespace {

using Names = std::map<std::string_view, std::string_view>;

// What training code imports and a general map lacks or has differently; looked at first. Modules whose name is
// their distribution's stand here too, so that they need no remark.
const Names k_known{
    {"cv2", "opencv-python"},
    {"skimage", "scikit-image"},
    {"sklearn", "scikit-learn"},
    {"PIL", "pillow"},
    {"yaml", "pyyaml"},
    {"pytorch_lightning", "pytorch-lightning"},
    {"torch_geometric", "torch-geometric"},
    {"torch_scatter", "torch-scatter"},
    {"torch_sparse", "torch-sparse"},
    {"torch_cluster", "torch-cluster"},
    {"torch.utils.tensorboard", "tensorboard"},
    {"tensorflow.keras", "tensorflow"},
    {"tensorflow_datasets", "tensorflow-datasets"},
    {"tensorflow_addons", "tensorflow-addons"},
    {"tensorflow_hub", "tensorflow-hub"},
    {"tensorflow_probability", "tensorflow-probability"},
    {"tensorboardX", "tensorboardx"},
    {"google.protobuf", "protobuf"},
    {"google.cloud.storage", "google-cloud-storage"},
    {"google.colab", ""},
    {"mpl_toolkits", "matplotlib"},
    {"pkg_resources", "setuptools"},
    {"dotenv", "python-dotenv"},
    {"dateutil", "python-dateutil"},
    {"bs4", "beautifulsoup4"},
    {"umap", "umap-learn"},
    {"faiss", "faiss-cpu"},
    {"hydra", "hydra-core"},
    {"lightning", "lightning"},
    {"flash_attn", "flash-attn"},
    {"open_clip", "open-clip-torch"},
    {"segmentation_models_pytorch", "segmentation-models-pytorch"},
    {"pycocotools", "pycocotools"},
    {"huggingface_hub", "huggingface-hub"},
    {"sentence_transformers", "sentence-transformers"},
    {"imblearn", "imbalanced-learn"},
    {"OpenGL", "pyopengl"},
    {"wandb", "wandb"},
    {"gym", "gym"},
    {"mujoco_py", "mujoco-py"},
    {"soundfile", "soundfile"},
    {"prettytable", "prettytable"},
    {"nibabel", "nibabel"},
    {"SimpleITK", "simpleitk"},
    {"pydicom", "pydicom"},
    {"rdkit", "rdkit"},
    {"Levenshtein", "levenshtein"},
    {"MeCab", "mecab-python3"},
    {"fitz", "pymupdf"},
    {"git", "gitpython"},
    {"apex", ""},
    {"amp_C", ""},
    {"pycuda", "pycuda"},
    {"tensorrt", "tensorrt"},
    {"caffe", ""},
    {"caffe2", "torch"},
    {"clip", ""},
};

constexpr std::string_view k_same_name[] = {
    "torch",        "torchvision", "torchaudio",   "torchtext",     "numpy",        "scipy",
    "pandas",       "matplotlib",  "tqdm",         "tensorflow",    "keras",        "jax",
    "jaxlib",       "flax",        "optax",        "transformers",  "datasets",     "accelerate",
    "diffusers",    "tokenizers",  "tiktoken",     "sentencepiece", "einops",       "timm",
    "seaborn",      "requests",    "h5py",         "tensorboard",   "imageio",      "albumentations",
    "kornia",       "deepspeed",   "peft",         "trl",           "bitsandbytes", "xformers",
    "triton",       "numba",       "cupy",         "networkx",      "nltk",         "spacy",
    "gensim",       "librosa",     "lmdb",         "psutil",        "click",        "fire",
    "absl",         "omegaconf",   "ray",          "optuna",        "mlflow",       "joblib",
    "torchmetrics", "torchinfo",   "torchsummary", "thop",          "lpips",        "ignite",
    "gymnasium",    "cloudpickle", "plotly",       "evaluate",      "sacrebleu",    "rouge_score",
    "ftfy",         "regex",       "safetensors",  "xgboost",       "lightgbm",     "catboost",
    "dill",         "six",         "addict",       "termcolor",     "colorama",     "tabulate",
    "pytest",       "cython",      "attr",         "filelock",      "packaging",    "ipdb",
    "sympy",        "statsmodels", "pyarrow",      "polars",        "zarr",         "dgl"};
const Names k_renamed{
    {"absl", "absl-py"}, {"ignite", "pytorch-ignite"}, {"attr", "attrs"}, {"rouge_score", "rouge-score"}};

const std::set<std::string_view> k_python2_and_internal{
    "__builtin__",  "__builtins__", "__main__",     "cPickle",      "cStringIO",  "StringIO",       "ConfigParser",
    "Queue",        "Cookie",       "cookielib",    "copy_reg",     "exceptions", "htmlentitydefs", "HTMLParser",
    "httplib",      "itertools",    "md5",          "sha",          "sets",       "robotparser",    "SimpleHTTPServer",
    "SocketServer", "thread",       "Tkinter",      "tkMessageBox", "urllib2",    "urlparse",       "UserDict",
    "xmlrpclib",    "commands",     "dummy_thread", "anydbm",       "new",        "popen2",         "repr",
    "_winreg",      "winreg",       "winsound",     "msvcrt",       "tomllib",    "zoneinfo",       "graphlib",
    "_thread"};

Result<std::vector<std::string>> lines_of(const std::filesystem::path& file) {
  std::vector<std::string> lines;
  if (file.empty()) return lines;
  const std::string text = TRY(base::read_file(file, Bytes{4U << 20U}));
  for (const std::string_view line : split(text, '\n'))
    if (const auto content = trimmed(line); !content.empty() && content.front() != '#') lines.emplace_back(content);
  return lines;
}

}  // namespace

Result<ImportNames> ImportNames::load(const std::filesystem::path& module_map,
                                      const std::filesystem::path& standard_library_list) {
  ImportNames names;
  for (const std::string& line : TRY(lines_of(module_map)))
    if (const std::size_t colon = line.find(':'); colon != std::string::npos)
      names.m_map.emplace(line.substr(0, colon), line.substr(colon + 1));  // of several the first
  for (const std::string& line : TRY(lines_of(standard_library_list))) names.m_standard.insert(line);
  for (const std::string_view name : k_same_name) names.m_map[std::string(name)] = name;
  for (const auto& [module, distribution] : k_renamed) names.m_map[std::string(module)] = distribution;
  for (const auto& [module, distribution] : k_known) names.m_map[std::string(module)] = distribution;
  return names;
}

bool ImportNames::is_standard(std::string_view top_level) const {
  return m_standard.contains(top_level) || k_python2_and_internal.contains(top_level);
}

std::optional<std::string> ImportNames::distribution(std::string_view dotted) const {
  for (;;) {
    if (const auto found = m_map.find(dotted); found != m_map.end()) return found->second;
    const std::size_t dot = dotted.rfind('.');
    if (dot == std::string_view::npos) return std::nullopt;
    dotted = dotted.substr(0, dot);
  }
}

}  // namespace startrail::project
