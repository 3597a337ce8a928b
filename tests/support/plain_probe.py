"""A probe trained by a plain loop through the whole model: what a probe grid is compared with."""

import torch

from multitask.data.collate import collate, label_tensor, separate
from multitask.inference.scoring import measure
from multitask.tasks.metrics import improves


def plainly_trained(prepared, task):
    """Dev scores, the step selected and all steps, trained as a probe is, batch by batch from the
    texts."""
    model, splits, reader = prepared.model, prepared.data.splits[task], prepared.data.readers[task]
    model.encoder.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.module(task).parameters(), lr=0.01, weight_decay=0.0)
    rng = torch.Generator().manual_seed(2)
    torch.manual_seed(2)
    best, step, chosen, dev, best_epoch = -1.0, 0, 0, None, 0
    for epoch in range(13):
        model.train()  # a wholly frozen encoder stays in evaluation mode
        count = len(splits["train"].rows)
        for index in torch.randperm(count, generator=rng).split(64) if epoch else ():
            batch = collate(splits["train"].tokens, index.numpy(), pad_id=0)
            labels = label_tensor(splits["train"].rows.gold[index.numpy()])
            loss = model.head(task).criterion(model(separate({task: batch}))[task], labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
        scores = prepared.scorer.score(task, splits["holdout"])
        value = measure(scores, splits["holdout"].rows, reader)[prepared.metrics[task]]
        if improves(value, best):
            best, chosen, best_epoch = value, step, epoch
            dev = prepared.scorer.score(task, splits["dev"])
        if epoch == best_epoch + 6:
            break
    return dev, chosen, step
