/**
 * What the templates of chat models mark roles and turns with: `<|im_start|>`, `[INST]`, `<<SYS>>`, `</s>`,
 * `<start_of_turn>`, `<｜User｜>` and the like.
 */
const roleToken = new RegExp(
  [
    '<(?=[|｜])',
    String.raw`<(?=\/?(?:s|bos|eos|pad|unk|start_of_turn|end_of_turn|system|user|assistant|tool_call|tool_response)>)`,
    String.raw`<(?=<\/?SYS>>)`,
    String.raw`\[(?=\/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT)\])`,
  ].join('|'),
  'gi',
);

/** The text with a visible dot in what a model could take for the mark of a role, so that it opens none. */
export function withoutRoleTokens(text: string): string {
  return text.replace(roleToken, '$&·');
}
