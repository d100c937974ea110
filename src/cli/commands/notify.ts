import { hostname } from 'node:os';
import packageJson from '../../../package.json' with { type: 'json' };
import { loadSettings } from '../../catalog/archive-settings.ts';
import { EXIT, type ExitCode } from '../../core/errors.ts';
import { openChannels, testMessage } from '../../daemon/notifier.ts';
import { type CommandContext, invalidUsage, type Register, subCommand } from '../context.ts';

const HELP = `
"test" sends a notification to notify.command and notify.url of the configuration, whichever are set, and prints what
became of each. The notification says that it is a test: its event is "test", and "ok" is true. It contacts neither
the service nor the archive, and changes nothing in what the daemon has reported.

Run it as the user of the daemon, and from its environment where that differs: a unit may forbid the command more.

EXAMPLES
  mailkeep notify test
  mailkeep notify test --config /etc/mailkeep/config.json --json`;

export const register: Register = (command, run) => {
  command.usage('test [options]').helpCommand(false).addHelpText('after', HELP);
  subCommand(command, 'test', 'send a test notification over each configured channel').action(() =>
    run(sendTest),
  );
};

async function sendTest(context: CommandContext): Promise<ExitCode> {
  const { now, output, signal, environment } = context;
  const { command, url } = loadSettings(context).notify;
  const channels = openChannels({ command, url, env: environment.env }, signal);
  if (channels.length === 0) {
    throw invalidUsage(
      'notify test',
      'the configuration has neither notify.command nor notify.url.',
    );
  }
  const message = testMessage(now(), { host: hostname(), version: packageJson.version });
  let code: ExitCode = EXIT.done;
  for (const { channel, send } of channels) {
    const outcome = await send(message);
    signal.throwIfAborted();
    if (!outcome.sent) code = EXIT.failures;
    await output.line({ channel, ...outcome }, () =>
      outcome.sent ? `notify.${channel}: sent` : `notify.${channel}: not sent (${outcome.reason})`,
    );
  }
  return code;
}
