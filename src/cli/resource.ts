import { type Connection, call } from './call.ts'
import { usageFailure } from './exits.ts'
import { callFlags, parse } from './flags.ts'
import type { Operation } from './operation.ts'
import { write } from './output/output.ts'
import { connect } from './perform.ts'
import type { ClientConfig } from './profiles.ts'

type Read = { connection: Connection; path: string; body: Record<string, unknown>; etag: string | undefined }

/** For commands that do more with a resource than `get`: reads it. Undefined if only help was requested. */
export async function readResource(
  config: ClientConfig,
  get: Operation,
  args: string[],
  usage: string,
): Promise<Read | undefined> {
  const { values, positionals } = parse(args, callFlags)
  if (values.help) {
    write(usage)
    return undefined
  }
  if (positionals.length !== get.positionals.length)
    throw usageFailure(`needs ${get.positionals.map(({ name }) => `<${name}>`).join(' ')}`, ...usage.split('\n'))
  const connection = connect(config, values as { profile?: string; timeout?: string; verbose?: boolean })
  const ids = await (await import('./names.ts')).withIds(connection, get, positionals)
  const path = get.positionals.reduce(
    (built, { name }, index) => built.replace(`{${name}}`, encodeURIComponent(ids[index] ?? '')),
    get.path,
  )
  const { text, headers } = await call(connection, { method: 'GET', path })
  return { connection, path, body: JSON.parse(text), etag: headers.get('etag') }
}
