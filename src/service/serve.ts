import { type SandboxOptions, startSandbox } from './sandbox.ts';

/**
 * Runs the service until it is told to stop: prints one line of JSON once it listens, and returns when every
 * connection is closed and the state is on disk.
 *
 * @param print called once, with `{mailboxUrl, platformUrl, mcpUrl, tokens, mailboxes}` as JSON
 * @param stop aborted by SIGTERM or SIGINT
 * @throws MailkeepError `sandbox-seed-unreadable`, `sandbox-state-unusable`, `sandbox-cannot-listen`
 */
export async function serveSandbox(
  options: SandboxOptions,
  print: (line: string) => void,
  stop: AbortSignal,
): Promise<void> {
  const sandbox = await startSandbox(options);
  const { mailboxUrl, platformUrl, mcpUrl, tokens, mailboxes } = sandbox;
  print(JSON.stringify({ mailboxUrl, platformUrl, mcpUrl, tokens, mailboxes }));
  if (!stop.aborted) {
    await new Promise<void>((resolve) => {
      stop.addEventListener('abort', () => resolve(), { once: true });
    });
  }
  await sandbox.close();
}
