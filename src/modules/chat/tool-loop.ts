import { functionNameOf } from '#src/domain/agents/tools.ts';
import { truncateToTokens } from '#src/domain/text/tokens.ts';
import { appError } from '#src/errors.ts';
import type { ChatModel, ModelMessage, ModelReply, ModelRequest, ModelTool, ModelUsage } from '#src/ports/models.ts';
import type { ToolCallRecord } from './chat.model.ts';
import type { RoundTool } from './round-tools.ts';
import { repeatable } from './tool-arguments.ts';
import { type CallerDeps, createToolCaller, maxToolCalls, type ToolRound } from './tool-caller.ts';

/** A model that says what it is about to look up says it in less; what is longer is the answer. */
const announcementCharacters = 160;
/** Calls at once that are answered, the last of them by a refusal, which says how many the rest were. */
const callsAtOnce = maxToolCalls + 2;
/** With less no result says anything. */
const leastTokens = 200;

const answerNow = 'No function can be called any more. Answer now, in words, with what there is.';

/** `truncatedBy` of the last turn: what the model says before a call is no part of the answer. */
export type LoopReply = Pick<ModelReply, 'usage' | 'model' | 'truncatedBy'> & { toolCalls: ToolCallRecord[] };

export type ToolLoop = ReturnType<typeof createToolLoop>;

export function toModelTool({ tool }: RoundTool): ModelTool {
  return { name: functionNameOf(tool.id), description: tool.description, parameters: tool.parameters };
}

/** Has a model write an answer, with the tools that it calls in between. */
export function createToolLoop(deps: { chatModel: Pick<ChatModel, 'stream'> } & Omit<CallerDeps, 'logger'>) {
  const { chatModel, tokenCounter } = deps;

  /**
   * Once six calls are made, or nothing of their results would fit any more, the model is asked for its answer. What a
   * model says before a call is no part of the answer, unless it is so long that it went out as one. A model that then
   * only calls more is asked once again; when it does not answer either, this throws `model_response_invalid`.
   * @param round null without tools
   * @param toolTokens for calls and their results
   * @returns the usage of all turns together
   */
  return async (
    request: Omit<ModelRequest, 'tools' | 'mayCall'>,
    { round, toolTokens, logger }: { round: ToolRound | null; toolTokens: number } & Pick<CallerDeps, 'logger'>,
    onText: (text: string) => void,
  ): Promise<LoopReply> => {
    if (round === null || round.tools.length === 0) {
      return { ...(await chatModel.stream(request, onText)), toolCalls: [] };
    }
    const tools = round.tools.map(toModelTool);
    const caller = createToolCaller(round, { ...deps, logger });
    const voice = createVoice(onText);
    const messages = [...request.messages];
    const usage: ModelUsage = { inputTokens: 0, cachedInputTokens: 0, completionTokens: 0 };
    let tokensLeft = toolTokens;
    let isUrged = false;
    for (let turn = 1; ; turn += 1) {
      const mayCall = caller.callsLeft() > 0 && tokensLeft >= leastTokens;
      const speak = voice.turn(mayCall ? announcementCharacters : 0);
      const reply = await chatModel.stream({ ...request, messages, tools, mayCall }, speak.say);
      addUsage(usage, reply.usage);
      if (reply.toolCalls === undefined) {
        speak.end();
        return { ...reply, usage, toolCalls: caller.records() };
      }
      if (!mayCall) {
        if (isUrged) throw appError('model_response_invalid', { detail: 'The chat model calls tools without end.' });
        messages.push({ role: 'system', content: answerNow });
        isUrged = true;
        continue;
      }
      const asked = askedBy(reply, turn, tokensLeft);
      tokensLeft -= tokenCounter.count(JSON.stringify(asked.message));
      const results = await caller.call(asked.calls, Math.max(0, tokensLeft), asked.leftOut);
      messages.push(asked.message);
      asked.calls.forEach(({ id }, index) => {
        const content = results[index] ?? '';
        tokensLeft -= tokenCounter.count(content);
        messages.push({ role: 'tool', toolCallId: id, content });
      });
    }
  };

  /**
   * The calls of a turn, and the message that says in the conversation that they were made: without their arguments,
   * which the model has written in any length, where those would take the room of the results.
   */
  function askedBy({ text, toolCalls = [] }: ModelReply, turn: number, tokens: number) {
    // Nine letters and digits, which is what the strictest services take for an id.
    const calls = toolCalls
      .slice(0, callsAtOnce)
      .map((call, index) => ({ ...call, id: `call${String(turn * 100 + index + 1).padStart(5, '0')}` }));
    const most = Math.floor(tokens / 2);
    const saying = (hasArguments: boolean): ModelMessage => ({
      role: 'assistant',
      content: Number.isFinite(tokens) ? truncateToTokens(text, Math.floor(most / 2), tokenCounter) : text,
      toolCalls: calls.map(({ id, name, arguments: json }) => ({
        id,
        name: /^[\w-]{1,64}$/.test(name) ? name : 'unknown',
        arguments: hasArguments ? repeatable(json) : '{}',
      })),
    });
    const whole = saying(true);
    const message = tokenCounter.count(JSON.stringify(whole)) <= most ? whole : saying(false);
    return { calls, leftOut: toolCalls.length - calls.length, message };
  }
}

/** Passes on what is said of an answer in several turns, each in a paragraph of its own. */
function createVoice(onText: (text: string) => void) {
  let hasSpoken = false;

  return {
    /** Holds back as many characters at first: what is not more when the turn ends without `end` was never said. */
    turn(heldCharacters: number) {
      let held: string | null = '';
      let isParagraph = hasSpoken;
      const say = (text: string): void => {
        onText(isParagraph ? `\n\n${text}` : text);
        isParagraph = false;
        hasSpoken = true;
      };
      const release = (): void => {
        if (held) say(held);
        held = null;
      };
      return {
        say(text: string): void {
          if (held === null) say(text);
          else held += text;
          if (held !== null && held.length > heldCharacters) release();
        },
        end: release,
      };
    },
  };
}

function addUsage(sum: ModelUsage, more: ModelUsage): void {
  sum.inputTokens += more.inputTokens;
  sum.cachedInputTokens += more.cachedInputTokens;
  sum.completionTokens += more.completionTokens;
}
