import type { VNode } from 'preact';
import { Icon } from '../pages/icons.tsx';
import { Moment } from '../pages/moment.tsx';
import type { Shown } from './viewer.ts';
import { useViewer } from './viewer-context.ts';

/** Says that the server cannot be reached. What is shown stays. */
export function LostStrip({ lost }: Pick<Shown, 'lost'>): VNode | null {
  const viewer = useViewer();
  if (lost === null) return null;
  return (
    <div class="strip warn lost" role="status">
      <Icon name="alert" />
      <span>
        <strong>The connection to the archive is lost.</strong> What you see is from{' '}
        <Moment ms={lost.since} />. The next try follows by itself.
      </span>
      <button type="button" class="btn" onClick={() => viewer.retry()}>
        Try now
      </button>
    </div>
  );
}

/** Says that the server did not give what was asked for. The next answer takes it away. */
export function RefusedStrip({ failed }: Pick<Shown, 'failed'>): VNode | null {
  if (!failed) return null;
  return (
    <div class="strip warn lost" role="status">
      <Icon name="alert" />
      <span>
        <strong>The server could not answer this request.</strong> What you see is still right. Its
        log says why.
      </span>
    </div>
  );
}
