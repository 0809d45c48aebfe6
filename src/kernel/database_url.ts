// PostgreSQL URLs in libpq's form, which may name several servers: postgres://user:password@a,b:5433/database. Neither
// URL nor pg can parse those.
export type Server = { readonly host: string; readonly port: number }

const pattern = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^/?#@]*,[^/?#@]*)(.*)$/is
const standIn = 'several.invalid'
const defaultPort = 5432

/** Replaces the list of servers by a placeholder that URL can parse. Throws if the rest is invalid. */
function readUrl(text: string): { url: URL; hosts?: string } {
  const [, before, hosts, after] = pattern.exec(text) ?? []
  return hosts ? { url: new URL(`${before}${standIn}${after}`), hosts } : { url: new URL(text) }
}

export type DatabaseUrl = {
  /** The URL for pg; with several servers, the one of the first. */
  readonly url: string
  /** One URL for each of `servers`. */
  readonly urls: readonly string[]
  /** Named servers in order; empty for a socket. */
  readonly servers: readonly Server[]
  /** Only the server that accepts writes will do. */
  readonly mustWrite: boolean
  readonly user: string
  readonly password: string
}

/** Gatehouse always needs the primary, so a URL that requests a standby is a mistake. */
const acceptable = ['any', 'primary', 'read-write']

/** Throws an Error with the reason. */
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

/** Changes another part of the URL, such as the database, and keeps the servers. */
export function changeUrl(text: string, change: (url: URL) => void): string {
  const { url, hosts } = readUrl(text)
  change(url)
  return hosts ? url.href.replace(standIn, hosts) : url.href
}
