import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { z } from 'zod';

const resultSchema = z.object({
  node: z.string(),
  command: z.string(),
  ms: z.number(),
  /** What was abnormal or wrong. */
  problem: z.string().optional(),
});

/** One run of one command on one Node.js. */
export type Result = z.output<typeof resultSchema>;

/** The results so far, also in a file, one JSON object a line. */
export class Results {
  readonly #file: string;
  readonly #all: Result[] = [];

  /** Reads what an earlier run has left in the file. */
  constructor(file: string) {
    this.#file = file;
    if (!existsSync(file)) return;
    for (const line of readFileSync(file, 'utf8').split('\n'))
      if (line !== '') this.#all.push(resultSchema.parse(JSON.parse(line)));
  }

  add(result: Result): void {
    appendFileSync(this.#file, `${JSON.stringify(result)}\n`);
    this.#all.push(result);
  }

  /** Returns the number of runs of a command on a Node.js. */
  runs(node: string, command: string): number {
    return this.#of(node, command).length;
  }

  get problems(): readonly Result[] {
    return this.#all.filter(({ problem }) => problem !== undefined);
  }

  /** Returns a Markdown table: a row for each command, and for each Node.js the runs, the problems and the times. */
  table(nodes: readonly string[]): string {
    const commands = [...new Set(this.#all.map(({ command }) => command))];
    const rows = commands.map((command) => {
      const cells = nodes.map((node) => {
        const runs = this.#of(node, command);
        const problems = runs.filter(({ problem }) => problem !== undefined).length;
        const times = runs.map(({ ms }) => ms).sort((a, b) => a - b);
        const at = (share: number): number => times[Math.floor((times.length - 1) * share)] ?? 0;
        return `${runs.length} | ${problems} | ${seconds(at(0.5))} | ${seconds(at(1))}`;
      });
      return `| ${command} | ${cells.join(' | ')} |`;
    });
    const heads = nodes.map((node) => `${node}: runs | abnormal | median s | longest s`);
    return [
      `| Command | ${heads.join(' | ')} |`,
      `|---|${nodes.map(() => '---|---|---|---|').join('')}`,
      ...rows,
    ].join('\n');
  }

  #of(node: string, command: string): readonly Result[] {
    return this.#all.filter((result) => result.node === node && result.command === command);
  }
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(2);
}
