import type { NatsConnection } from '@nats-io/transport-node'
import { poll } from './poll.ts'

/** Listens to what NATS forbids this connection. The returned function waits until that is the given subject. */
export function watchViolations(connection: NatsConnection): (subject: string) => Promise<unknown> {
  const violations: string[] = []
  void (async () => {
    for await (const status of connection.status()) if (status.type === 'error') violations.push(status.error.message)
  })()
  return (subject) =>
    poll(
      () => violations,
      (said) => said.some((each) => /permissions violation/i.test(each) && each.includes(`"${subject}"`)),
    )
}
