import { Template } from '@huggingface/jinja';
import type { ChatMessage, Tool } from './chat-request.ts';
import { parseObject } from './tool-calls.ts';

/**
 * A part of a prompt. `withMarks` is true for the chat template's text, whose special tokens count, and false for
 * message text, where they are plain characters.
 */
export type PromptPart = { text: string; withMarks: boolean };

/** Private-use characters around a number stand for a message's text while the template is rendered. */
const SLOT = /\ue000(\d+)\ue001/;
/** The chat template of the Qwen coder models shows a tool call with doubled braces, which the models then copy. */
const DOUBLED_BRACES = /\{(\{\\"name\\": <function-name>, \\"arguments\\": <args-json-object>\})\}/;
/**
 * U+02C6 replaces spaces in text that the product datamarks (spotlighting). It is turned back, because it doubles the
 * tokens.
 */
const DATAMARK = /\u02c6/g;

export type PromptTemplate = (messages: readonly ChatMessage[], tools: readonly Tool[]) => PromptPart[];

/** Renders a conversation into prompt parts that end where the assistant's reply begins. */
export function createPromptTemplate(jinja: string): PromptTemplate {
  const template = new Template(jinja.replace(DOUBLED_BRACES, '$1'));
  return (messages, tools) => {
    const texts: string[] = [];
    const slot = (text: string): string => {
      texts.push(text.replace(DATAMARK, ' '));
      return `\ue000${texts.length - 1}\ue001`;
    };
    const filled = template.render({
      messages: messages.map((message) => toTemplateMessage(message, slot)),
      tools: tools.length > 0 ? tools.map(toTemplateTool) : null,
      add_generation_prompt: true,
    });
    return filled.split(SLOT).map((part, index) => {
      // Odd indexes hold what the capture group of `split` matched.
      return index % 2 === 0 ? { text: part, withMarks: true } : { text: texts[Number(part)] ?? '', withMarks: false };
    });
  };
}

function toTemplateMessage({ role, content, toolCalls }: ChatMessage, slot: (text: string) => string) {
  const calls = toolCalls?.map(({ name, arguments: json }) => ({
    type: 'function',
    function: { name: withoutMarks(name), arguments: parseObject(withoutMarks(json)) },
  }));
  return { role, content: content === '' ? '' : slot(content), ...(calls && { tool_calls: calls }) };
}

function toTemplateTool({ name, description, parameters }: Tool): unknown {
  const tool = { type: 'function', function: { name, description, parameters } };
  return JSON.parse(withoutMarks(JSON.stringify(tool)));
}

/**
 * The template serializes tool definitions as JSON, where no slot can stand for a text, so special tokens in them are
 * broken up.
 */
function withoutMarks(text: string): string {
  return text.replaceAll('<|', '< |').replace(/[\ue000\ue001]/g, '');
}
