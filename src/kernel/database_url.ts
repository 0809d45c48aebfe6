// URLs of PostgreSQL in libpq's form, which may name several servers: postgres://user:password@a,b:5433/database. Neither
// URL nor pg can read those.
export type Server = { readonly host: string; readonly port: number }

const pattern = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^/?#@]*,[^/?#@]*)(.*)$/is
const standIn = 'several.invalid'
const defaultPort = 5432

/** A URL that names one server, in place of all. Throws if it cannot be read. */
function readUrl(text: string): { url: URL; hosts?: string } {
  const [, before, hosts, after] = pattern.exec(text) ?? []
  return hosts ? { url: new URL(`${before}${standIn}${after}`), hosts } : { url: new URL(text) }
}

export type DatabaseUrl = {
  /** As pg reads it: of several servers, it names the first. */
  readonly url: string
  /** The same for each of `servers`. */
  readonly urls: readonly string[]
  /** Those it names, in its order; none if it names a socket. */
  readonly servers: readonly Server[]
  /** The one of `servers` that accepts changes is wanted. */
  readonly mustWrite: boolean
  readonly user: string
  readonly password: string
}

/** Gatehouse always needs the primary. A URL that asks for a standby is a mistake. */
const acceptable = ['any', 'primary', 'read-write']

/** Throws an Error that says what is wrong. */
export function readDatabaseUrl(text: string): DatabaseUrl {
  const { url, hosts } = readUrl(text)
  const servers = (hosts ?? url.host).split(',').map(readServer)
  const wanted = url.searchParams.get('target_session_attrs')
  if (wanted && !acceptable.includes(wanted))
    throw new Error(
      `target_session_attrs=${wanted} does not lead to the primary, which Gatehouse needs: use read-write`,
    )
  url.searchParams.delete('target_session_attrs')
  const urls = servers.map((server) => (hosts ? url.href.replace(standIn, nameOf(server)) : url.href))
  return {
    url: urls[0] ?? url.href,
    urls,
    servers: servers.filter(({ host }) => host !== ''),
    mustWrite: servers.length > 1 || wanted === 'read-write' || wanted === 'primary',
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
  }
}

function readServer(text: string): Server {
  const [, v6, host = v6 ?? '', port = String(defaultPort)] =
    /^(?:\[([^\]]*)\]|([^:[\]]*))(?::(\d{1,5}))?$/.exec(text) ?? []
  if (host === '' && text !== '') throw new Error(`'${text}' is not host:port`)
  return { host, port: Number(port) }
}

const bracketed = (host: string): string => (host.includes(':') ? `[${host}]` : host)
export const nameOf = ({ host, port }: Server): string => `${bracketed(host)}:${port}`

/** The same servers and settings with another part, such as the name of the database. */
export function changeUrl(text: string, change: (url: URL) => void): string {
  const { url, hosts } = readUrl(text)
  change(url)
  return hosts ? url.href.replace(standIn, hosts) : url.href
}
