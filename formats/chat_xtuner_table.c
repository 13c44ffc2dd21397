/* SPDX-License-Identifier: Apache-2.0
 * The prompt templates of XTuner 0.2.0, byte for byte: trailing blanks, missing line ends and
 * "DeepSeekCompany" are part of what models were trained with. tests/golden/xtuner holds the same
 * strings as XTuner itself gives them. */
#include "formats/chat_xtuner.h"

/* "plain" adds nothing: for rows whose text is complete as it is. */
#define TEMPLATE(title, ...)                                                                       \
    {                                                                                              \
        .name = title, .kind = &chat_xtuner, .data = &(const struct xtuner_strings)                \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

const struct chat_known xtuner_templates[XTUNER_TEMPLATES] = {
    TEMPLATE("default", .system = "<|System|>:{system}\n",
             .instruction = "<|User|>:{input}\n<|Bot|>:", .sep = "\n"),
    TEMPLATE("zephyr", .system = "<|system|>\n{system}\n",
             .instruction = "<|user|>\n{input}\n<|assistant|>\n", .sep = "\n"),
    TEMPLATE("internlm_chat", .system = "<|System|>:{system}\n",
             .instruction = "<|User|>:{input}<eoh>\n<|Bot|>:", .suffix = "<eoa>",
             .suffix_as_eos = true, .sep = "\n", .stop_words = {"<eoa>"}),
    TEMPLATE("internlm2_chat", .system = "<|im_start|>system\n{system}<|im_end|>\n",
             .instruction = "<|im_start|>user\n{input}<|im_end|>\n<|im_start|>assistant\n",
             .suffix = "<|im_end|>", .suffix_as_eos = true, .sep = "\n",
             .stop_words = {"<|im_end|>"}),
    TEMPLATE("moss_sft", .system = "{system}\n", .instruction = "<|Human|>: {input}<eoh>\n",
             .sep = "\n", .stop_words = {"<eoc>", "<eom>"}),
    TEMPLATE("llama2_chat",
             .system = "[INST] <<SYS>>\n You are a helpful, respectful and honest assistant. "
                       "Always answer as helpfully as possible, while being safe. Your answers "
                       "should not include any harmful, unethical, racist, sexist, toxic, "
                       "dangerous, or illegal content. Please ensure that your responses are "
                       "socially unbiased and positive in nature.\n{system}\n<</SYS>>\n [/INST] ",
             .instruction = "[INST] {input} [/INST]", .sep = "\n"),
    TEMPLATE("code_llama_chat", .system = "{system}\n", .instruction = "[INST] {input} [/INST]"),
    TEMPLATE("chatglm2", .system = "{system}\n",
             .instruction = "[Round {round}]\n\n问：{input}\n\n答：", .sep = "\n\n"),
    TEMPLATE("chatglm3", .system = "<|system|>\n{system}",
             .instruction = "<|user|>\n{input}<|assistant|>\n", .sep = "\n"),
    TEMPLATE("qwen_chat", .system = "<|im_start|>system\n{system}<|im_end|>\n",
             .instruction = "<|im_start|>user\n{input}<|im_end|>\n<|im_start|>assistant\n",
             .suffix = "<|im_end|>", .suffix_as_eos = true, .sep = "\n",
             .stop_words = {"<|im_end|>", "<|endoftext|>"}),
    TEMPLATE("baichuan_chat", .system = "{system}\n",
             .instruction = "<reserved_102>{input}<reserved_103>", .sep = "\n"),
    TEMPLATE("baichuan2_chat", .system = "{system}\n",
             .instruction = "<reserved_106>{input}<reserved_107>", .sep = "\n"),
    TEMPLATE(
        "wizardlm",
        .system =
            "A chat between a curious user and an artificial intelligence assistant. The assistant "
            "gives helpful, detailed, and polite answers to the user's questions. {system}\n ",
        .instruction = "USER: {input} ASSISTANT:", .sep = "\n"),
    TEMPLATE("wizardcoder",
             .system = "Below is an instruction that describes a task. Write a response that "
                       "appropriately completes the request.\n\n{system}\n ",
             .instruction = "### Instruction:\n{input}\n\n### Response:", .sep = "\n\n"),
    TEMPLATE(
        "vicuna",
        .system =
            "A chat between a curious user and an artificial intelligence assistant. The assistant "
            "gives helpful, detailed, and polite answers to the user's questions. {system}\n ",
        .instruction = "USER: {input} ASSISTANT:", .sep = "\n"),
    TEMPLATE("deepseek_coder",
             .system =
                 "You are an AI programming assistant, utilizing the DeepSeek Coder model, "
                 "developed by DeepSeekCompany, and you only answer questions related to computer "
                 "science. For politically sensitive questions, security and privacy issues, and "
                 "other non-computer science questions, you will refuse to answer. {system}\n",
             .instruction = "### Instruction:\n{input}\n### Response:\n", .sep = "\n"),
    TEMPLATE("deepseekcoder",
             .system =
                 "You are an AI programming assistant, utilizing the DeepSeek Coder model, "
                 "developed by DeepSeekCompany, and you only answer questions related to computer "
                 "science. For politically sensitive questions, security and privacy issues, and "
                 "other non-computer science questions, you will refuse to answer. {system}\n",
             .instruction = "### Instruction:\n{input}\n### Response:\n", .sep = "\n"),
    TEMPLATE("deepseek_moe", .system = "[INST] {system} [/INST]\n",
             .instruction = "[INST] {input} [/INST]", .sep = "\n"),
    TEMPLATE("deepseek_v2", .system = "{system}\n\n",
             .instruction = "User: {input}\n\nAssistant: ", .suffix = "<｜end▁of▁sentence｜>",
             .suffix_as_eos = true, .stop_words = {"<｜end▁of▁sentence｜>"}),
    TEMPLATE("mistral", .system = "[INST] {system} [/INST]\n",
             .instruction = "[INST] {input} [/INST]", .sep = "\n"),
    TEMPLATE("mixtral", .system = "[INST] {system} [/INST]\n",
             .instruction = "[INST] {input} [/INST]", .sep = "\n"),
    TEMPLATE("minicpm", .instruction = "<用户> {input} <AI>", .sep = "\n"),
    TEMPLATE("minicpm3", .system = "<|im_start|>system\n{system}<|im_end|>\n",
             .instruction = "<|im_start|>user\n{input}<|im_end|>\n<|im_start|>assistant\n",
             .suffix = "<|im_end|>", .suffix_as_eos = true, .sep = "\n",
             .stop_words = {"<|im_end|>", "<|endoftext|>"}),
    TEMPLATE("gemma", .system = "<start_of_turn>system\n{system}<end_of_turn>\n",
             .instruction = "<start_of_turn>user\n{input}<end_of_turn>\n<start_of_turn>model\n",
             .suffix = "<end_of_turn>", .sep = "\n", .stop_words = {"<end_of_turn>"}),
    TEMPLATE("cohere_chat",
             .system = "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>{system}<|END_OF_TURN_TOKEN|>",
             .instruction = "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>{input}<|END_OF_TURN_TOKEN|><|"
                            "START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
             .suffix = "<|END_OF_TURN_TOKEN|>", .suffix_as_eos = true,
             .stop_words = {"<|END_OF_TURN_TOKEN|>"}),
    TEMPLATE("llama3_chat",
             .system = "<|start_header_id|>system<|end_header_id|>\n\n{system}<|eot_id|>",
             .instruction = "<|start_header_id|>user<|end_header_id|>\n\n{input}<|eot_id|><|start_"
                            "header_id|>assistant<|end_header_id|>\n\n",
             .suffix = "<|eot_id|>", .suffix_as_eos = true, .stop_words = {"<|eot_id|>"}),
    TEMPLATE("phi3_chat", .system = "<|system|>\n{system}<|end|>\n",
             .instruction = "<|user|>\n{input}<|end|>\n<|assistant|>\n", .suffix = "<|end|>",
             .suffix_as_eos = true, .sep = "\n", .stop_words = {"<|end|>"}),
    TEMPLATE("plain", .instruction = "{input}", .keeps_turn_ends = true),
};
