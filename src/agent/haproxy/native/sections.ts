import { answers } from '../config/answers.ts'
import { forwardCareful, waiting, withTrailers } from '../config/backends.ts'
import { mapFile, type ProxySettings } from '../settings.ts'

export type Mode = 'http' | 'tcp'
export type Section = {
  readonly mode: Mode
  /**
   * `least` uses the fewest open requests; `weights` takes turns, because otherwise HAProxy ignores weights while
   * nothing is open.
   */
  readonly balance: 'least' | 'weights'
  readonly isHttp2: boolean
}

export const sectionName = ({ mode, balance, isHttp2 }: Section): string =>
  ['native', mode, balance, ...(isHttp2 ? ['h2'] : [])].join('_')

const sections: readonly Section[] = (['least', 'weights'] as const).flatMap((balance) => [
  { mode: 'http', balance, isHttp2: false },
  { mode: 'http', balance, isHttp2: true },
  { mode: 'tcp', balance, isHttp2: false },
])

/**
 * Settings that native backends share. HAProxy can add rules to a run-time backend only through a `defaults` section. A
 * failed connection is retried at other servers, and an unanswered request only if its method is idempotent. Every other
 * request gets its own connection, under a unique name and closed afterwards: docs/adr/0040. The section has to name the
 * authorities, because HAProxy reads no file at run time.
 */
export const nativeSections = (settings: ProxySettings, common: string): string => `
# How servers are checked. A path is found by the server's name; see definition.ts.
healthcheck tcp
  type tcp-check
healthcheck http
  type httpchk
  http-check send meth GET uri-lf "%[srv_name,field(1,.),map_str(${mapFile(settings, 'check')}),field(2,|)]" ver HTTP/1.1 hdr Host %[srv_name,field(1,.),map_str(${mapFile(settings, 'check')}),field(1,|)] hdr User-Agent gatehouse
  http-check expect status 200-399

${sections.map((section) => nativeSection(settings, section, common)).join('\n')}`

const nativeSection = (settings: ProxySettings, section: Section, common: string): string =>
  `defaults ${sectionName(section)}
  mode ${section.mode}
${common}  timeout check 5s
  timeout queue 2s
  balance ${section.balance === 'least' ? 'leastconn' : 'roundrobin'}
  option redispatch 1
  retries 3
  # HAProxy never looks up the ring that a backend added at run time logs to, writes through a stray pointer, and crashes.
  # gatehouse.lua tells of changes of health.
  no log
${section.mode === 'tcp' ? '  timeout server 1h\n' : httpRules(settings, section)}`

const httpRules = (settings: ProxySettings, { isHttp2 }: Section): string => {
  const forward = forwardCareful(settings)
  return `  retry-on conn-failure empty-response${isHttp2 ? withTrailers(forward) : forward}${waiting(settings)}
  acl idempotent method GET HEAD PUT DELETE OPTIONS
  http-request disable-l7-retry unless idempotent
  http-request set-var(txn.pool) unique-id unless idempotent
  http-request set-header Connection close unless idempotent
`
}

/** Target of requests and connections whose native backend does not exist. */
export const nativeMissing = `backend native_missing_http
  mode http
  http-request return ${answers.unavailable}

backend native_missing_tcp
  mode tcp
  tcp-request content reject
`
