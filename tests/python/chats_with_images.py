"""Conversations with images, and their sequences."""

from interleaved_documents import BEGIN, FINISH, PAD, picture, qwen_sequences

TEMPLATE = (
    "{% for message in messages %}{{ message.role }}:"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'image' %}"
    f"{BEGIN}{PAD}{FINISH}"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
    "{% if message.role == 'assistant' %}{% generation %}!{% endgeneration %}{% endif %}\n"
    "{% endfor %}"
)


def user(*parts):
    content = [
        {"type": "image"} if part is None else {"type": "text", "text": part} for part in parts
    ]
    return {"role": "user", "content": content}


def said(text):
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


CONVERSATIONS = [
    ([user(None, "what?"), said("x")], [picture(40, 60)]),
    ([user("hello"), said("y")], []),
    ([user("a", None, "b", None), said("z"), user(None)], [picture(28, 90, seed=n) for n in "123"]),
]


def chat_sequences(model, **options):
    given = {"messages": "messages", "images_from": "images", "chat_template": TEMPLATE}
    return qwen_sequences(model, **(given | {"eos": None} | options))
