// The HAProxy instances that bench/edge_proxy.ts puts beside ours, and the upstream of all of them.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'

export type HeaderOperations = { add: [name: string, value: string][]; remove: string[] }
type Options = {
  folder: string
  certificates: string
  ranges: string
  headers: HeaderOperations
  ports: Record<
    'upstream' | 'bareHttps' | 'bareTcp' | 'byHandHttps' | 'byHandTcp' | 'loggedHttps' | 'loggedTcp',
    number
  >
  /** Puts a command on a core of its own. */
  pinned: (of: 'proxy' | 'load', command: string[]) => string[]
}

/** The same buffers and time-outs as ours, and one thread. */
const common = `global
  nbthread 1
  maxconn 4000
  tune.bufsize 32768
  tune.maxrewrite 16384
  tune.bufsize.small 4096
  tune.pattern.cache-size 256
  ssl-default-bind-options ssl-min-ver TLSv1.2
defaults
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  timeout http-request 10s
  timeout http-keep-alive 60s
  option clitcpka
  option srvtcpka
  option use-small-buffers l7-retries
`

const frontends = ({ certificates }: Options, https: number, tcp: number, rules: { http: string; tcp: string }) => `
frontend https
  mode http
  bind 127.0.0.1:${https} ssl crt ${certificates} strict-sni alpn h2,http/1.1
${rules.http}  default_backend to_http
frontend tcp
  mode tcp
  bind 127.0.0.1:${tcp}
${rules.tcp}  default_backend to_tcp
`
const server = ({ ports }: Options) => `127.0.0.1:${ports.upstream}`

const bare = (
  options: Options,
) => `${frontends(options, options.ports.bareHttps, options.ports.bareTcp, { http: '', tcp: '' })}
backend to_http
  mode http
  server s ${server(options)}
backend to_tcp
  mode tcp
  server s ${server(options)}
`

const sourceLimit = `  tcp-request connection track-sc0 src,ipmask(32,64) table per_source
  tcp-request connection reject if { sc_conn_cur(0) gt 1000 }
`
const forged =
  '^(?:connection|keep[^a-z0-9]alive|proxy[^a-z0-9].*|te|trailer|upgrade|x[^a-z0-9]forwarded[^a-z0-9].*|forwarded|x[^a-z0-9]real[^a-z0-9]ip|x[^a-z0-9]request[^a-z0-9]id)$'

/** For ordinary requests the same as ours: limits, spelling of paths, controls, forged headers, forwarding headers, ids. */
const byHandRules = ({ headers, ranges }: Options) => `  unique-id-format %[uuid(7)]
${sourceLimit}  http-request return status 405 if METH_CONNECT || METH_TRACE
  http-request return status 400 if { req.hdrs -m reg '[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f]' }
  acl unusual_path var(txn.unusual_path) -m found
  http-request set-var(txn.unusual_path) bool(true) if { path -m reg '[^A-Za-z0-9\\-._~!$&\\x27()*+,:=@/]|/[./]' }
  http-request return status 400 if unusual_path { path -m reg '%(?![0-9A-Fa-f]{2})|;|%3[Bb]|\\\\|%(?:2[Ff]|5[Cc])' }
  http-request normalize-uri percent-decode-unreserved strict if unusual_path
  http-request normalize-uri path-strip-dot if unusual_path
  http-request normalize-uri path-strip-dotdot full if unusual_path
  http-request normalize-uri path-merge-slashes if unusual_path
  http-request return status 421 if !{ req.hdr(host),host_only -m str -i app.example.com localhost }
  http-request return status 404 if !{ path_dir /some/path /headers /policy }
  http-request return status 403 if { path_dir /policy } !{ src -f ${ranges} }
  http-request del-header '${forged}' -m reg
  http-request add-header X-Forwarded-For %[src]
  http-request add-header X-Forwarded-Proto https
  http-request add-header X-Forwarded-Host %[req.hdr(host)]
  http-request add-header X-Request-Id %[unique-id]
  acl headers path_dir /headers
${headers.remove.map((name) => `  http-request del-header ${name} if headers\n`).join('')}${headers.add.map(([name, value]) => `  http-request set-header ${name} '${value}' if headers\n`).join('')}`

const lineSocket = ({ folder }: Options) => join(folder, 'by_hand_lines.sock')
/** A line for each request, as ours writes it, with what there is to say in a configuration for one edge. */
const line = (time: string, rest: string) =>
  `"H\t%pid\t%lc\t%[unique-id]\t${time}\t%[src]\t%Tt\t%U\t%[bytes_out]\t%ts\t%[last_rule_line]\t%si\t%sp${rest}"`
const requestLine =
  '\t%ST\t%[fc_http_major]\t%[capture.req.ver]\t%HM\t%[var(txn.asked_host),bytes(0,255)]\t%[var(txn.asked_path),bytes(0,1024)]'
const toRing = `  log ring@requests len 8192 format raw local0
  option dontlognull
  unique-id-format %[uuid(7)]
`
const logging = {
  ring: (options: Options) => `ring requests
  format raw
  maxlen 8192
  size ${8 << 20}
  timeout connect 1s
  timeout server 10s
  server reader unix@${lineSocket(options)} log-proto octet-count
`,
  http: `${toRing}  log-format ${line('%[request_date(ms)]', requestLine)}
  http-request set-var(txn.asked_host) req.fhdr(host)
  http-request set-var(txn.asked_path) path
  http-after-response set-header X-Request-Id %[unique-id]
`,
  tcp: `${toRing}  log-format ${line('%[accept_date(ms)]', '')}
`,
}

const byHand = (options: Options, isLogged: boolean) => `# normalize-uri is not declared stable.
global
  expose-experimental-directives
backend per_source
  stick-table type ipv6 size 10000 expire 10s store conn_cur
${isLogged ? logging.ring(options) : ''}${frontends(
  options,
  isLogged ? options.ports.loggedHttps : options.ports.byHandHttps,
  isLogged ? options.ports.loggedTcp : options.ports.byHandTcp,
  {
    http: (isLogged ? logging.http : '') + byHandRules(options),
    tcp: `${isLogged ? logging.tcp : ''}${sourceLimit}  tcp-request connection reject if !{ src -f ${options.ranges} }\n`,
  },
)}
backend to_http
  mode http
  retries 1
  retry-on empty-response
  acl idempotent method GET HEAD PUT DELETE OPTIONS
  http-request disable-l7-retry unless idempotent
  use-server once unless idempotent
  server s ${server(options)}
  server once ${server(options)} weight 0 max-reuse 0
backend to_tcp
  mode tcp
  retries 0
  server s ${server(options)}
`

const upstream = ({ ports }: Options) => `frontend upstream
  mode http
  bind 127.0.0.1:${ports.upstream}
  http-request return status 200 content-type text/plain string hello
`

/** In place of the agent. What no one reads stays in the ring, which then takes no more lines and costs less. */
export async function discardLines(socket: string): Promise<void> {
  const reader = createServer((peer) => peer.on('error', () => {}).resume()).listen(socket)
  await once(reader, 'listening')
  reader.unref()
}

export const isOpen = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    })
    socket.on('error', () => resolve(false))
  })

/** Resolves to the process ids of the proxies. */
export async function startOthers(options: Options): Promise<Record<'bare' | 'byHand' | 'logged', number>> {
  const start = async (name: string, of: 'proxy' | 'load', text: string): Promise<ChildProcess> => {
    const file = join(options.folder, `${name}.cfg`)
    await writeFile(file, common + text)
    const [command = '', ...args] = options.pinned(of, ['haproxy', '-db', '-q', '-f', file])
    // In a session of its own, as ours: the kernel divides processor time among sessions first.
    const started = spawn(command, args, { stdio: 'inherit', detached: true })
    process.on('exit', () => started.kill('SIGKILL'))
    started.on('exit', (code) => {
      throw new Error(`the HAProxy of ${file} ended with ${code}`)
    })
    return started
  }
  await start('upstream', 'load', upstream(options))
  await discardLines(lineSocket(options))
  const others = {
    bare: await start('bare', 'proxy', bare(options)),
    byHand: await start('by_hand', 'proxy', byHand(options, false)),
    logged: await start('by_hand_logged', 'proxy', byHand(options, true)),
  }
  for (const port of [
    options.ports.upstream,
    options.ports.bareHttps,
    options.ports.byHandHttps,
    options.ports.loggedHttps,
  ]) {
    while (!(await isOpen(port))) await setTimeout(50)
  }
  return { bare: others.bare.pid ?? 0, byHand: others.byHand.pid ?? 0, logged: others.logged.pid ?? 0 }
}
