"""One contract for every registered adapter, in our encoder, and the formulas in plain loops."""

import copy

import pytest
import torch
from safetensors.torch import load_file, save_file

from multitask.config.registry import ADAPTERS, build
from multitask.utils.errors import UserError
from tests.support.cases import adapter_case
from tests.support.small_adapters import (
    LAYERS,
    LENGTHS,
    D,
    embedded,
    encoder,
    fresh,
    naive,
    sentences,
    trained,
)

every_adapter = pytest.mark.parametrize("name", ADAPTERS)
every_token = pytest.mark.parametrize("tokens", ["all", "first"])


@every_adapter
@every_token
@pytest.mark.parametrize("layers", [None, [2], [3, 1]], ids=str)
def test_hidden_states_and_gradients_equal_the_formulas(name, tokens, layers):
    """For every layer, ragged sentences, and each parameter of encoder and adapter."""
    bert, adapter = encoder(), trained(name, layers=layers)
    given, mask = embedded()
    given.requires_grad_()
    result = bert.encode(given, mask, range(LAYERS + 1), tokens, adapter)
    factors = torch.randn(
        LAYERS + 1, *given.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(4)
    )
    total, expected_total = 0, 0
    # leaves of the naive computation, under the same names
    encoder_state, adapter_state = (
        {n: p.detach().clone().requires_grad_() for n, p in part.named_parameters()}
        for part in (bert, adapter)
    )
    inputs = [row.detach().clone().requires_grad_() for row in sentences(given, mask)]
    case, acts_in = adapter_case(name), layers or range(1, LAYERS + 1)
    change = getattr(case, "weights", lambda bert, state, acts_in: bert)
    weights = change(encoder_state, adapter_state, acts_in)
    for row, sentence in enumerate(inputs):
        states = naive(weights, adapter_state, sentence, case.FORMULAS, acts_in)
        for layer, state in enumerate(states):
            count = 1 if tokens == "first" else len(sentence)
            torch.testing.assert_close(
                result[layer][row, :count], state[:count], rtol=1e-10, atol=1e-10
            )
            weight = factors[layer, row, :count]
            total = total + (weight * result[layer][row, :count]).sum()
            expected_total = expected_total + (weight * state[:count]).sum()
    total.backward()
    expected_total.backward()
    for row, sentence in enumerate(inputs):
        torch.testing.assert_close(
            given.grad[row, : len(sentence)], sentence.grad, rtol=1e-8, atol=1e-10
        )
    for part, leaves in ((bert, encoder_state), (adapter, adapter_state)):
        for key, parameter in part.named_parameters():
            if leaves[key].grad is None:  # embeddings
                assert parameter.grad is None
            else:
                torch.testing.assert_close(
                    parameter.grad, leaves[key].grad, rtol=1e-7, atol=1e-10, msg=key
                )


# ---- the contract


@every_adapter
def test_before_the_first_step_the_encoder_is_as_it_was(name):
    bert, adapter = encoder(), fresh(name)
    given, mask = embedded()
    for tokens in ("all", "first"):
        plain = bert.encode(given, mask, range(LAYERS + 1), tokens)
        result = bert.encode(given, mask, range(LAYERS + 1), tokens, adapter)
        for layer, state in plain.items():
            if adapter_case(name).STARTS_AS_THE_ENCODER:
                assert torch.equal(result[layer], state)
            else:
                assert not torch.equal(result[layer], state) or layer == 0
                torch.testing.assert_close(result[layer], state, rtol=1e-4, atol=1e-4)


@every_adapter
def test_it_changes_what_the_encoder_says(name):
    bert = encoder()
    given, mask = embedded()
    plain = bert.encode(given, mask, (LAYERS,))[LAYERS]
    result = bert.encode(given, mask, (LAYERS,), "all", trained(name))[LAYERS]
    assert (result - plain).abs().max() > 0.1


@every_adapter
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_padding_never_changes_the_output(name, left):
    bert, adapter = encoder(), trained(name)
    result = []
    for padding, side in ((0, False), (5, left)):
        given, mask = embedded(padding=padding, left=side)
        states = bert.encode(given, mask, (1, LAYERS), "all", adapter)
        assert all(not states[layer][mask == 0].any() for layer in states)
        result.append([torch.cat(sentences(states[layer], mask)) for layer in states])
    for one, other in zip(*result, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@every_adapter
def test_batch_equals_single(name):
    bert, adapter = encoder(), trained(name)
    given, mask = embedded()
    together = bert.encode(given, mask, (LAYERS,), "all", adapter)[LAYERS]
    for row, length in enumerate(LENGTHS):
        part = (given[row : row + 1, :length], mask[row : row + 1, :length])
        alone = bert.encode(*part, (LAYERS,), "all", adapter)[LAYERS]
        torch.testing.assert_close(alone[0], together[row, :length], rtol=1e-10, atol=1e-10)


@every_adapter
def test_the_first_tokens_alone_are_those_of_all(name):
    bert, adapter = encoder(), trained(name)
    given, mask = embedded()
    every = bert.encode(given, mask, range(LAYERS + 1), "all", adapter)
    first = bert.encode(given, mask, range(LAYERS + 1), "first", adapter)
    for layer, state in first.items():
        torch.testing.assert_close(state, every[layer][:, :1], rtol=1e-10, atol=1e-10)


@every_adapter
@every_token
def test_gradients_are_finite_and_reach_every_parameter(name, tokens):
    bert, adapter = encoder().train(), trained(name).train()
    given, mask = embedded(padding=2)
    bert.encode(given, mask, (LAYERS,), tokens, adapter)[LAYERS].square().sum().backward()
    for key, parameter in adapter.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), key
        assert parameter.grad.any(), key


@every_adapter
def test_eval_is_deterministic(name):
    bert, adapter = encoder(dropout=0.1), trained(name)
    given, mask = embedded()
    before = torch.get_rng_state()
    result = [bert.encode(given, mask, (LAYERS,), "all", adapter)[LAYERS] for _ in range(2)]
    assert torch.equal(*result)
    assert torch.equal(torch.get_rng_state(), before)


@every_adapter
def test_bf16_is_close(name):
    bert, adapter = encoder().float(), trained(name).float()
    given, mask = embedded()
    exact = bert.encode(given.float(), mask, (LAYERS,), "all", adapter)[LAYERS]
    with torch.autocast("cpu", torch.bfloat16):
        result = bert.encode(given.float(), mask, (LAYERS,), "all", adapter)[LAYERS]
    assert result.dtype == torch.float32
    torch.testing.assert_close(result, exact, rtol=0.05, atol=0.1)


@every_adapter
@every_token
@pytest.mark.parametrize("frozen", [False, True])
def test_gradient_checkpointing_changes_no_gradient(name, tokens, frozen):
    """Beside a frozen encoder too, which is in evaluation mode."""
    given, mask = embedded()
    gradients = []
    for checkpointing in (False, True):
        bert, adapter = encoder(dropout=0.1).train(not frozen), trained(name).train()
        bert.requires_grad_(not frozen)
        bert.gradient_checkpointing = checkpointing
        calls = []
        bert.layers[0].register_forward_pre_hook(lambda m, a, calls=calls: calls.append(1))
        torch.manual_seed(5)
        bert.encode(given, mask, (LAYERS,), tokens, adapter)[LAYERS].square().sum().backward()
        assert len(calls) == 1 + checkpointing
        gradients.append([p.grad for p in (*bert.parameters(), *adapter.parameters())])
    for plain, checkpointed in zip(*gradients, strict=True):
        assert (plain is None and checkpointed is None) or torch.equal(plain, checkpointed)


@every_adapter
def test_all_of_it_learns_within_two_steps(name):
    """Not the bug of two zero matrices in a row, which never get a gradient."""
    bert, adapter = encoder(), fresh(name)
    given, mask = embedded()
    optimizer = torch.optim.SGD(adapter.parameters(), lr=0.1)
    for step in (1, 2):
        optimizer.zero_grad()
        result = bert.encode(given, mask, (LAYERS,), "all", adapter)[LAYERS]
        (result * torch.arange(D)).sum().backward()
        for key, parameter in adapter.named_parameters():
            starts = adapter_case(name).learns_at_once(key)
            assert parameter.grad.any() == (starts or step == 2), (step, key)
        optimizer.step()


# ---- sizes


@every_adapter
@pytest.mark.parametrize("layers", [None, [2], [1, 3]], ids=str)
def test_parameters_follow_the_formula_and_are_saved_once(name, layers, tmp_path):
    made, case = fresh(name, layers=layers), adapter_case(name)
    expected = case.parameters(D, len(layers or range(LAYERS)))
    assert sum(parameter.numel() for parameter in made.parameters()) == expected
    save_file(made.state_dict(), tmp_path / "adapter.safetensors")
    saved = load_file(tmp_path / "adapter.safetensors")
    assert sum(tensor.numel() for tensor in saved.values()) == expected
    # and a copy stands on its own
    other = copy.deepcopy(made)
    other.load_state_dict({key: value + 1 for key, value in saved.items()})
    assert all(torch.equal(made.state_dict()[key], value) for key, value in saved.items())


@every_adapter
def test_only_the_chosen_layers_have_one(name):
    bert, adapter = encoder(), trained(name, layers=[2])
    given, mask = embedded()
    plain = bert.encode(given, mask, range(LAYERS + 1))
    result = bert.encode(given, mask, range(LAYERS + 1), "all", adapter)
    assert torch.equal(result[1], plain[1])
    assert not torch.allclose(result[2], plain[2], atol=1e-2)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("pal", {"size": 100}, "heads must divide the size: 12 heads, size 100"),
        ("pal", {"size": 60, "heads": 0}, "heads must divide the size: 0 heads"),
        ("pal", {"dropout": 1.0}, r"dropout must be in \[0, 1\), not 1.0"),
        ("pal", {"activation": "relu"}, "activation must be one of `gelu`, `none`, not 'relu'"),
        ("pal", {"layers": [4]}, r"different numbers from 1 to 3, not \[4\]"),
        ("low_rank", {"layers": [0]}, r"different numbers from 1 to 3, not \[0\]"),
        ("houlsby", {"layers": []}, r"different numbers from 1 to 3, not \[\]"),
        ("houlsby", {"layers": [1, 1]}, r"different numbers from 1 to 3, not \[1, 1\]"),
        ("houlsby", {"layers": 2}, "layers must be a list of whole numbers or null, not 2"),
        ("low_rank", {"size": 0}, "size must be at least 1, not 0"),
        ("low_rank", {"heads": 6}, "has no option 'heads'"),
        ("lora", {"r": 0}, "r and alpha must be above 0, not 0"),
        ("lora", {"alpha": -1.0}, "r and alpha must be above 0, not 8 and -1"),
        ("lora", {"dropout": 1.0}, r"dropout must be in \[0, 1\), not 1.0"),
        ("lora", {"targets": ["q"]}, "no linear map of a layer is 'q': name query, key, value,"),
        ("lora", {"targets": []}, "targets is empty: name query,"),
    ],
)
def test_options_that_do_not_fit_say_so(name, options, message):
    with pytest.raises(UserError, match=message) as caught:
        maps = encoder().linear_maps()
        build("adapter", name, options, {"dim": D, "num_layers": LAYERS, "maps": maps})
    assert "\n" not in str(caught.value)
