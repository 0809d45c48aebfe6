import type { NatsConnection } from '@nats-io/transport-node'
import { renewalSubject } from '../../distribution/channels.ts'
import { credentialsText, issuedAt, readCredentials } from '../../distribution/credentials_file.ts'
import type { NatsCredentials } from '../../distribution/nats_connection.ts'
import type { Log } from '../../kernel/log.ts'
import { spread, type Timing, wait } from '../../kernel/timing.ts'
import { type Files, writeAtomically } from './files.ts'

export type Credentials = {
  readonly current: () => NatsCredentials
  /** Asks the control plane for a new JWT every day until the signal aborts. */
  readonly keepRenewed: (nats: NatsConnection, signal: AbortSignal) => Promise<void>
}

type Parts = { file: string; node: string; files: Files; timing: Timing; log: Log }

const renewAfterMs = 24 * 60 * 60 * 1_000
const checkEveryMs = 60 * 60 * 1_000
const retryAfterMs = 5 * 60 * 1_000

/** Opens the credentials that the node received when it joined. Error messages address the operator. */
export async function openCredentials({ file, node, files, timing, log }: Parts): Promise<Credentials> {
  const text = (await files.read(file))?.toString()
  if (text === undefined) throw new Error(`${file} is not there. Run 'gatehouse edge join' on this node`)
  let current = readCredentialsOf(file, text)

  /** A negative age means that this node's clock is wrong: the JWT seems to be from the future. */
  function isDue(): boolean {
    const age = timing.now() - (issuedAt(current) ?? 0)
    return age < 0 || age > renewAfterMs
  }

  async function renew(nats: NatsConnection): Promise<void> {
    const jwt = (await nats.request(renewalSubject(node), '', { timeout: 5_000 })).string()
    if (issuedAt({ jwt }) === undefined) throw new Error('the control plane did not answer with a JWT')
    const renewed = { jwt, seed: current.seed }
    await writeAtomically(files, file, [credentialsText(renewed)], 0o600)
    current = renewed
    // The connection stays open. NATS closes it when its old JWT expires, and the client then reconnects with this one.
    log.info({}, 'renewed the NATS credentials')
  }

  return {
    current: () => current,
    async keepRenewed(nats, signal) {
      while (!signal.aborted) {
        let pauseMs = checkEveryMs
        try {
          if (isDue()) await renew(nats)
        } catch (error) {
          pauseMs = retryAfterMs
          const reason = (error as Error).message
          log.warn({ reason }, 'cannot renew the NATS credentials, which are valid for 7 days; retrying')
        }
        await wait(timing, spread(timing, pauseMs), signal)
      }
    },
  }
}

function readCredentialsOf(file: string, text: string): NatsCredentials {
  try {
    return readCredentials(text)
  } catch (error) {
    throw new Error(`${file} ${(error as Error).message}. Run 'gatehouse edge join' on this node`)
  }
}
