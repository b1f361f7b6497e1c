"""Configuration of the Boss: `[boss]`, and the built-in models and losses."""

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from proto.config import Section
from proto.resolver import Builtin, Registry

# Names as data, since the front door must know them and imports no torch.
TORCHVISION = (
    "alexnet", "convnext_base", "convnext_large", "convnext_small", "convnext_tiny", "densenet121", "densenet161",
    "densenet169", "densenet201", "efficientnet_b0", "efficientnet_b1", "efficientnet_b2", "efficientnet_b3",
    "efficientnet_b4", "efficientnet_b5", "efficientnet_b6", "efficientnet_b7", "efficientnet_v2_l",
    "efficientnet_v2_m", "efficientnet_v2_s", "googlenet", "inception_v3", "maxvit_t", "mnasnet0_5", "mnasnet0_75",
    "mnasnet1_0", "mnasnet1_3", "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small", "regnet_x_16gf",
    "regnet_x_1_6gf", "regnet_x_32gf", "regnet_x_3_2gf", "regnet_x_400mf", "regnet_x_800mf", "regnet_x_8gf",
    "regnet_y_128gf", "regnet_y_16gf", "regnet_y_1_6gf", "regnet_y_32gf", "regnet_y_3_2gf", "regnet_y_400mf",
    "regnet_y_800mf", "regnet_y_8gf", "resnet101", "resnet152", "resnet18", "resnet34", "resnet50",
    "resnext101_32x8d", "resnext101_64x4d", "resnext50_32x4d", "shufflenet_v2_x0_5", "shufflenet_v2_x1_0",
    "shufflenet_v2_x1_5", "shufflenet_v2_x2_0", "squeezenet1_0", "squeezenet1_1", "swin_b", "swin_s", "swin_t",
    "swin_v2_b", "swin_v2_s", "swin_v2_t", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19",
    "vgg19_bn", "vit_b_16", "vit_b_32", "vit_h_14", "vit_l_16", "vit_l_32", "wide_resnet101_2", "wide_resnet50_2",
)  # fmt: skip
"""Torchvision's classification models, by its own names."""

MODELS = Registry(
    "autoassist.models",
    {
        "small_cnn": Builtin("boss.models:small_cnn", "two 3x3 convolutions and two linear layers, for small images"),
        "mlp": Builtin("boss.models:mlp", "two hidden layers, for any input shape"),
        "linear": Builtin("boss.models:linear", "multinomial logistic regression, for any input shape"),
        "embedding_bag": Builtin(
            "boss.models:embedding_bag", "mean embedding of token ids, and a linear layer, for texts"
        ),
        **{name: Builtin(f"boss.vision:{name}", "torchvision's, untrained, for images") for name in TORCHVISION},
    },
)

LOSSES = Registry(
    "autoassist.losses",
    {
        "cross_entropy": Builtin("boss.losses:cross_entropy", "cross-entropy of each instance's logits"),
        "mse": Builtin("boss.losses:mse", "mean squared error, for targets that are numbers"),
        "bce": Builtin("boss.losses:bce", "binary cross-entropy, for instances with any number of labels (multi-hot)"),
    },
)

Share = Annotated[float, Field(ge=0, lt=1)]


class BossConfig(Section):
    """The Boss."""

    model: str = "small_cnn"
    """Built-in name (see `autoassist models`), `package.module:callable` or `./file.py:callable`."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Further arguments of the model's callable."""
    loss: str = "cross_entropy"
    """Loss of each instance: "cross_entropy" (class numbers), "mse" (numbers), "bce" (multi-hot labels), or your own
    callable(logits, targets) -> [B], named like a model."""
    device: str = "auto"
    """Where the model is trained: "auto" (the GPU if there is one), "cpu", "cuda", "cuda:1", ..."""
    threads: int = Field(default=0, ge=0, le=1024)
    """CPU threads torch computes with; 0 leaves it to torch, which takes all cores. A small model on a CPU with few
    cores may train faster with one core less, which the Batcher and the Assistant then use."""
    pin_memory: bool = True
    """Copy batches to the GPU through pinned memory, beside the computing; false: plainly, to see the difference."""

    amp: Literal["off", "bf16", "fp16"] = "off"
    """Automatic mixed precision: the dtype that matrix products and convolutions are computed in."""
    tf32: bool = True
    """Let NVIDIA GPUs round the factors of float32 products to TensorFloat-32 (10 bits of mantissa)."""
    channels_last: bool = False
    """Keep images and convolution weights as NHWC in memory: faster for convolutions, above all with `amp`."""
    compile: bool = False
    """Compile the model with torch.compile: the first steps take minutes, the later ones less."""
    accumulate: int = Field(default=1, ge=1, le=10_000)
    """Batches of the stream that make one optimizer step; schedules and step counts count optimizer steps."""
    microbatch: int = Field(default=0, ge=0)
    """Largest part of a batch that goes through the model at once, for models that need more memory; 0: all of it.
    Parts are of even size and never of one instance."""

    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    """Torch's optimizer of that name."""
    lr: float = Field(default=0.05, gt=0, allow_inf_nan=False)
    """Largest learning rate of the schedule. The default suits SGD; for Adam try 0.001."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Momentum of SGD."""
    nesterov: bool = True
    """Nesterov's momentum, where there is momentum."""
    betas: Annotated[list[Share], Field(min_length=2, max_length=2)] = Field(default_factory=lambda: [0.9, 0.999])
    """Decay of Adam's running means of gradient and squared gradient."""
    weight_decay: float = Field(default=5e-4, ge=0, allow_inf_nan=False)
    """Weight decay; decoupled from the learning rate's adaptation with adamw."""
    decay_norms: bool = True
    """Weight decay for biases and norm parameters (all of at most one dimension) too."""
    clip_norm: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Largest norm of the gradient of all parameters together; 0: any."""
    schedule: Literal["constant", "step", "cosine", "one_cycle", "inverse_sqrt"] = "one_cycle"
    """Learning rate over the run's optimizer steps."""
    warmup: Share = 0.0
    """Share of the optimizer steps in which the learning rate first rises linearly. one_cycle has its own rise."""
    step_at: list[Share] = Field(default_factory=lambda: [0.5, 0.75])
    """Shares of the optimizer steps after which the schedule "step" multiplies the learning rate by `step_factor`."""
    step_factor: float = Field(default=0.1, gt=0, le=1)
    """See `step_at`."""
    ema: Share = 0.0
    """Decay of an exponential moving average of the weights, which is then what is evaluated and saved; 0: none."""

    crop: int = Field(default=0, ge=0, le=1024)
    """Shift each training image at random by up to so many pixels each way, what comes in is black (0); 0: off. 4 is
    usual for CIFAR. Like `flip` and `cutout` it is done on the device, from run.seed, pass and id of the instance."""
    flip: bool = False
    """Exchange left and right of half of the training images, at random."""
    cutout: int = Field(default=0, ge=0, le=1024)
    """Replace a square of so many pixels a side, at a random place of each training image, by the data set's mean
    (0 in float images); 0: off. 16 is usual for CIFAR-10."""

    label_smoothing: Share = 0.0
    """Share of the label that is spread over all classes, in training; reports and metrics have the plain loss."""
    mixup: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Mix pairs of instances: alpha of the Beta distribution of their shares; 0: off."""
    cutmix: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Paste a rectangle of another image: alpha of the Beta distribution of its area; 0: off. With `mixup`: by turns,
    at random."""

    eval_every: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """Evaluate on the test split each time so many Boss epochs are trained; 0: only at the end."""
    checkpoint_every: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """Write a checkpoint each time so many Boss epochs are trained, and when stopped by a signal; 0: never. After a
    thousand times as many it is written each time another thousandth of them is trained."""
    slots: int = Field(default=4, ge=1, le=4096)
    """Batches on their way to the Boss at one time."""
    loss_queue: int = Field(default=256, ge=1, le=1_000_000)
    """Loss reports kept while the Assistant is not reading; then the oldest is dropped, and counted."""

    @field_validator("microbatch")
    @classmethod
    def _no_part_of_one(cls, value: int) -> int:
        if value == 1:
            raise ValueError("batch norm cannot train on parts of one instance; allowed: 0 (off), 2 and more")
        return value

    @field_validator("warmup")
    @classmethod
    def _one_rise(cls, value: float, info: ValidationInfo) -> float:
        if value and info.data.get("schedule") == "one_cycle":
            raise ValueError("one_cycle rises by itself; allowed with it: 0 (or choose another boss.schedule)")
        return value

    @field_validator("label_smoothing")
    @classmethod
    def _smooths_cross_entropy(cls, value: float, info: ValidationInfo) -> float:
        if value and info.data.get("loss", "cross_entropy") != "cross_entropy":
            raise ValueError("smooths the labels of cross_entropy only; allowed with your own boss.loss: 0")
        return value
