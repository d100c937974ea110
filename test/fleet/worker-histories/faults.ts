import type { Seeded } from '../../bench/seeded.ts';
import { randomHttpFault } from '../../objects/servers/http-faults.ts';
import { HttpProxy } from '../../objects/servers/http-proxy.ts';
import { type Cut, CuttingProxy } from '../servers/cutting-proxy.ts';
import type { Servers } from '../servers/nodes.ts';

/** Requests of both kinds that something happens to. */
const SHARE = 0.03;
/** A client that hears nothing waits for a minute and more: histories have no time for that. */
const CUTS: readonly Cut[] = ['after', 'before', 'held', 'doubled'];

/** Proxies in front of both servers, which lose, hold, double and cut requests. */
export class Faults {
  made = 0;

  private constructor(
    readonly sql: CuttingProxy,
    readonly http: HttpProxy,
    private readonly random: Seeded,
  ) {}

  static async start({ postgres, radosgw }: Servers, random: Seeded): Promise<Faults> {
    const sql = await CuttingProxy.start(postgres.socket);
    const http = await HttpProxy.start(radosgw.port);
    return new Faults(sql, http, random);
  }

  begin(): void {
    const { sql, http, random } = this;
    sql.cutFor = ({ alone }) => {
      if (random.next() >= SHARE) return undefined;
      // What is sent on alone is a transaction of its own: a part of another one it cannot be.
      const cut = CUTS[random.below(alone ? CUTS.length : CUTS.length - 1)];
      this.made += 1;
      return cut;
    };
    http.faultFor = () => {
      if (random.next() >= SHARE * 2) return undefined;
      this.made += 1;
      if (random.next() < 0.4) return { do: random.next() < 0.5 ? 'hold' : 'double' };
      const fault = randomHttpFault(random);
      return fault?.do === 'silence' || fault?.do === 'silence-within' ? undefined : fault;
    };
  }

  /** What was held arrives. */
  async deliver(): Promise<void> {
    await Promise.all([this.sql.deliver(), this.http.deliver()]);
  }

  /** From now on, nothing happens to requests; what was held arrives. */
  async end(): Promise<void> {
    this.sql.cutFor = () => undefined;
    this.http.faultFor = () => undefined;
    await this.deliver();
  }

  async stop(): Promise<void> {
    await this.sql.stop();
    await this.http.stop();
  }
}
