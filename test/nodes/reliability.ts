/**
 * Runs the built program many times over one archive, on one or more Node.js binaries, and fails when a single run
 * ends abnormally or answers wrongly. Options: see USAGE in options.ts.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Workplace } from '../bench/workplace.ts';
import { type Command, longCommands, problemOf, shortCommands, smallExport } from './commands.ts';
import { parseOptions, type ReliabilityOptions, USAGE } from './options.ts';
import { openArchive } from './reliable-archive.ts';
import { Results } from './results.ts';
import { runCommand } from './run-command.ts';

const BUILT = fileURLToPath(new URL('../../dist/mailkeep.cjs', import.meta.url));
/** Progress is printed after this many rounds. */
const REPORTED_ROUNDS = 20;

interface Node {
  readonly file: string;
  readonly version: string;
}

async function main(options: ReliabilityOptions): Promise<number> {
  const work = new Workplace({ keep: false });
  try {
    return await repeat(work, options);
  } finally {
    await work.leave();
  }
}

async function repeat(work: Workplace, options: ReliabilityOptions): Promise<number> {
  const folder = options.work ?? work.folder;
  mkdirSync(folder, { recursive: true });
  const nodes = options.nodes.map((file) => ({
    file,
    version: execFileSync(file, ['--version'], { encoding: 'utf8' }).trim(),
  }));
  const program = options.program ?? BUILT;
  const archive = await openArchive(work, folder, program, options.messages);
  const { facts } = archive;
  console.log(
    `${facts.messages} messages from ${facts.origin}; searches ${facts.searches.join(', ')}; the small export has ${facts.exported} (${facts.exportQuery})`,
  );
  const results = new Results(join(folder, 'results.jsonl'));
  const place = { program, folder, results, nodes };
  await rounds(place, shortCommands(archive), options.runs);
  await rounds(place, [smallExport(archive, folder)], options.exports);
  await rounds(place, longCommands(archive, folder), options.full);
  await archive.sandbox.stop();
  console.log(results.table(nodes.map(({ version }) => version)));
  for (const { node, command, problem } of results.problems)
    console.log(`FAILED  ${command} on ${node}: ${problem}`);
  console.log(results.problems.length === 0 ? 'No run ended abnormally.' : 'Some runs failed.');
  return results.problems.length === 0 ? 0 : 1;
}

interface Place {
  readonly program: string;
  readonly folder: string;
  readonly results: Results;
  readonly nodes: readonly Node[];
}

/** In turns, so that a busy minute of the machine falls on all Node.js versions alike. */
async function rounds(place: Place, commands: readonly Command[], wanted: number): Promise<void> {
  for (let round = 0; round < wanted; round++) {
    for (const command of commands)
      for (const node of place.nodes)
        if (place.results.runs(node.version, command.name) <= round)
          await once(place, command, node, round);
    if ((round + 1) % REPORTED_ROUNDS === 0 || round + 1 === wanted)
      console.log(`${round + 1} of ${wanted} rounds, ${place.results.problems.length} problems`);
  }
}

async function once(
  { program, folder, results }: Place,
  command: Command,
  node: Node,
  round: number,
): Promise<void> {
  const args = command.args(round);
  // An interrupted run may have left something.
  command.clean();
  const ended = await runCommand(node.file, [program, ...args], folder);
  const problem = problemOf(command, ended, args);
  command.clean();
  results.add({
    node: node.version,
    command: command.name,
    ms: Math.round(ended.wallMs),
    ...(problem !== undefined && { problem }),
  });
  if (problem !== undefined) console.log(`${command.name} on ${node.version}: ${problem}`);
}

const options = parseOptions(process.argv.slice(2));
if (options === 'help') console.log(USAGE);
else process.exitCode = await main(options);
