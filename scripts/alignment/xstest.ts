import { csvRecords } from '../../bench/retrieval/csv-records.ts';
import { type DatasetFile, readDatasetFile } from './dataset-file.ts';

/** A reply of one of five models. `isRefusal` is the human label, for full and partial refusals. */
export type LabelledReply = { model: string; reply: string; isRefusal: boolean };

const models = ['gpt4', 'llama2new', 'llama2orig', 'mistralguard', 'mistralinstruct'];
const attribution = 'XSTest v2 (paul-rottger/exaggerated-safety), completions with human labels, CC BY 4.0';

/** Reads XSTest v2 (Röttger et al. 2023): 450 prompts, each answered by five models. */
export function readXsTest(): { replies: LabelledReply[]; sources: DatasetFile['record'][] } {
  const files = models.map((model) => ({
    model,
    file: readDatasetFile(`xstest/xstest_v2_completions_${model}.csv`, attribution),
  }));
  const replies = files.flatMap(({ model, file }) => {
    const [head = [], ...rows] = csvRecords(file.text);
    const [replyAt, labelAt] = [head.indexOf('completion'), head.indexOf('final_label')];
    return rows.map((row) => ({
      model,
      reply: row[replyAt] ?? '',
      isRefusal: /refusal/.test(row[labelAt] ?? ''),
    }));
  });
  return { replies, sources: files.map(({ file }) => file.record) };
}
