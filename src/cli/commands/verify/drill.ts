import { randomInt } from 'node:crypto';
import { openCompared } from '../../../catalog/implied.ts';
import { type Drilled, type DrillFinding, drill, seededRandom } from '../../../drill/drill.ts';
import { noting } from '../../../engine/verify/remember.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { rememberDrill } from '../../../health/verification.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import type { KnownFinding } from '../../../state/values.ts';
import { bytes, count, counted } from '../../../wording/amounts.ts';
import { withReader } from '../../archive-access.ts';
import type { CommandContext } from '../../context.ts';
import type { Colours } from '../../output.ts';
import { shortId } from '../../place-line.ts';
import { openActivity } from '../../progress/activity.ts';

const MOST_SEED = 2 ** 32 - 1;

const WHAT: Readonly<Record<DrillFinding['kind'], string>> = {
  lost: 'could not be exported: its bytes are damaged or missing',
  unlisted: 'has no place, so no export contains it',
  bytes: 'came back with other bytes',
  headers: 'came back with another header',
  manifest: 'the export does not agree with its manifest',
};

/** `verify --drill`: exports a random sample, reads it back and compares. */
export async function verifyDrill(
  context: CommandContext,
  wanted: number,
  seed = randomInt(MOST_SEED),
): Promise<ExitCode> {
  const { now, signal, output } = context;
  return withReader(context, async (reader) => {
    const stored = openCompared(reader.dataDir);
    try {
      const activity = openActivity(context, 'exporting messages and reading them back');
      const drilled = await drill({
        dir: reader.dataDir,
        catalog: reader.catalog,
        stored,
        sources: reader.sources(),
        wanted,
        random: seededRandom(seed),
        now,
        signal,
      }).finally(activity.stop);
      const { at, ...rest } = drilled;
      const ok = drilled.findings.length === 0;
      const verifiedAt = new Date(at).toISOString();
      const durationMs = now() - at;
      const outcome = {
        ...{ at, endedAt: now(), checked: drilled.messages, of: drilled.of },
        found: drilled.findings.length,
        findings: drilled.findings.map(knownFinding),
      };
      const remembered = noting(context, reader.dataDir, 'result', (state) =>
        rememberDrill(state, outcome),
      );
      const shown = { mode: 'drill', ok, seed, ...rest, durationMs, verifiedAt, remembered };
      await output.object(shown, () => drillText(drilled, seed, output.colours));
      return ok ? EXIT.done : EXIT.damage;
    } finally {
      stored.close();
    }
  });
}

function drillText(
  { messages, of, files, bytes: size, headers, findings }: Drilled,
  seed: number,
  colours: Colours,
): string {
  return [
    `Drew ${count(messages)} of ${counted(of, 'message')} (seed ${seed}), exported them as ${counted(files, 'file')}, ${bytes(size)}, and read them back.`,
    `Compared all bytes, and ${counted(headers, 'header')} by another parser.`,
    ...(findings.length === 0
      ? [colours.green('All of them match the log.')]
      : [
          ...findings.map((finding) => `${colours.red('DAMAGED')} ${findingText(finding)}`),
          colours.red(`${counted(findings.length, 'finding')}.`),
        ]),
  ].join('\n');
}

/** Without the path, which has the name of a folder. */
function knownFinding(finding: DrillFinding): KnownFinding {
  return { what: 'drill', id: null, text: findingText({ ...finding, path: null }) };
}

function findingText({ kind, id, path }: DrillFinding): string {
  const message = id === null ? '' : `message ${shortId(id)} `;
  return `${message}${WHAT[kind]}${path === null ? '' : ` (${terminalLine(path)})`}`;
}
