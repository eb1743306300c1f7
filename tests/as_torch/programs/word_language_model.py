"""Language models over words: recurrent ones and a transformer, by name on the command line."""

import argparse
import math
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

WORDS = "the cat sat on the mat and the dog sat on the cat while the mat lay on the floor and the cat slept".split()


class Dictionary:
    def __init__(self):
        self.word2idx, self.idx2word = {}, []

    def add_word(self, word):
        if word not in self.word2idx:
            self.idx2word.append(word)
            self.word2idx[word] = len(self.idx2word) - 1
        return self.word2idx[word]

    def __len__(self):
        return len(self.idx2word)


class RNNModel(nn.Module):
    def __init__(self, rnn_type, ntoken, ninp, nhid, nlayers):
        super().__init__()
        self.ntoken, self.rnn_type, self.nhid, self.nlayers = ntoken, rnn_type, nhid, nlayers
        self.encoder = nn.Embedding(ntoken, ninp)
        if rnn_type in ["LSTM", "GRU"]:
            self.rnn = getattr(nn, rnn_type)(ninp, nhid, nlayers)
        else:
            nonlinearity = {"RNN_TANH": "tanh", "RNN_RELU": "relu"}[rnn_type]
            self.rnn = nn.RNN(ninp, nhid, nlayers, nonlinearity=nonlinearity)
        self.decoder = nn.Linear(nhid, ntoken)

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.encoder(input), hidden)
        decoded = self.decoder(output).view(-1, self.ntoken)
        return F.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        sizes = self.nlayers, bsz, self.nhid
        if self.rnn_type == "LSTM":
            return weight.new_zeros(sizes), weight.new_zeros(sizes)
        return weight.new_zeros(sizes)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=50):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len, dtype=torch.float).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0).transpose(0, 1))

    def forward(self, x):
        return x + self.pe[: x.size(0), :]


class TransformerModel(nn.Transformer):
    def __init__(self, ntoken, ninp, nhead, nhid, nlayers):
        super().__init__(
            d_model=ninp, nhead=nhead, dim_feedforward=nhid, num_encoder_layers=nlayers, dropout=0.0
        )
        self.pos_encoder = PositionalEncoding(ninp)
        self.input_emb = nn.Embedding(ntoken, ninp)
        self.ninp = ninp
        self.decoder = nn.Linear(ninp, ntoken)

    def forward(self, src):
        mask = torch.log(torch.tril(torch.ones(len(src), len(src))))
        src = self.pos_encoder(self.input_emb(src) * math.sqrt(self.ninp))
        return F.log_softmax(self.decoder(self.encoder(src, mask=mask)), dim=-1)


def settle(model):
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_((torch.arange(p.numel(), dtype=torch.float32) * (1.3 + i)).sin().view_as(p) * 0.3)


def repackage_hidden(h):
    return h.detach() if isinstance(h, torch.Tensor) else tuple(repackage_hidden(v) for v in h)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    return data.narrow(0, 0, nbatch * bsz).view(bsz, -1).t().contiguous()


def train(model, kind, data, ntokens, bptt, lr, clip):
    criterion = nn.NLLLoss()
    model.train()
    total, count = 0.0, 0
    hidden = None if kind == "Transformer" else model.init_hidden(data.size(1))
    for i in range(0, data.size(0) - 1, bptt):
        seq_len = min(bptt, len(data) - 1 - i)
        x, targets = data[i : i + seq_len], data[i + 1 : i + 1 + seq_len].view(-1)
        model.zero_grad()
        if kind == "Transformer":
            output = model(x).view(-1, ntokens)
        else:
            output, hidden = model(x, repackage_hidden(hidden))
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        for p in model.parameters():
            if p.grad is not None:
                p.data.add_(p.grad, alpha=-lr)
        total, count = total + loss.item(), count + 1
    return total / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="LSTM")
    args = parser.parse_args()
    dictionary = Dictionary()
    ids = torch.tensor([dictionary.add_word(word) for word in WORDS * 4]).type(torch.int64)
    data, ntokens = batchify(ids, 3), len(dictionary)
    if args.model == "Transformer":
        model = TransformerModel(ntokens, 8, 2, 12, 1)
    else:
        model = RNNModel(args.model, ntokens, 8, 10, 2)
    settle(model)
    for epoch in range(2):
        loss = train(model, args.model, data, ntokens, bptt=6, lr=1.0, clip=0.25)
        print(f"| epoch {epoch} | loss {loss:5.3f} | ppl {math.exp(loss):8.2f}")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.pt")
        with open(path, "wb") as f:
            torch.save(model, f)
        with open(path, "rb") as f:
            again = torch.load(f, weights_only=False)
        if hasattr(again, "rnn"):
            again.rnn.flatten_parameters()
        print(
            type(again).__name__,
            all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters())),
        )


if __name__ == "__main__":
    main()
