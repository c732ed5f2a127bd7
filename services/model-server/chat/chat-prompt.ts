import { Template } from '@huggingface/jinja';
import type { ChatMessage, Tool } from './chat-request.ts';
import { parseObject } from './tool-calls.ts';

/** A part of a prompt: of the template, whose marks count, or of somebody's text, in which they are plain letters. */
export type PromptPart = { text: string; withMarks: boolean };

/** Private-use characters around a number stand for a message's text while the template is filled. */
const SLOT = /\ue000(\d+)\ue001/;
/** The coder models' template shows a call with doubled braces, which the models then write. */
const DOUBLED_BRACES = /\{(\{\\"name\\": <function-name>, \\"arguments\\": <args-json-object>\})\}/;
/** U+02C6 stands for a space in text that is marked as data: it would make the text twice as long to read. */
const DATAMARK = /\u02c6/g;

export type PromptTemplate = (messages: readonly ChatMessage[], tools: readonly Tool[]) => PromptPart[];

/** The prompt of a conversation, up to where the assistant speaks. */
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
      // What `split` captures stands at the odd places.
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

/** The template writes these as JSON, where no slot can stand for them: their marks are broken up. */
function withoutMarks(text: string): string {
  return text.replaceAll('<|', '< |').replace(/[\ue000\ue001]/g, '');
}
