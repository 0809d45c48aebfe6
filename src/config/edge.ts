import { defaultCellName, maxWaves } from '../kernel/edge/cells.ts'
import { natsSettings } from './nats.ts'
import { setting } from './setting.ts'
import {
  amount,
  cellName,
  cidrList,
  dnsServers,
  fullOrTruncated,
  hosts,
  keepOrClose,
  list,
  listenAddress,
  logDestinations,
  logLevel,
  logLevels,
  networks,
  nodeName,
  onOrOff,
  percentage,
  portRange,
  requestLines,
  text,
  wholeNumber,
} from './values.ts'

/** Settings of `gatehouse edge`. */
export const edgeSettings = {
  GATEHOUSE_EDGE_NODE: setting({
    help: 'Name of this node: lowercase letters, digits and hyphens; a dot becomes a hyphen. NATS lets the node report only under this name.',
    parse: nodeName,
  }),
  GATEHOUSE_EDGE_CELL: setting({
    default: defaultCellName,
    help: "Cell that this node belongs to; 'gatehouse edge join' sets it. The node gets the records of the accounts that are placed there.",
    parse: cellName,
  }),
  GATEHOUSE_EDGE_WAVE: setting({
    default: '0',
    help: "Wave of the cell that this node belongs to; 'gatehouse edge join' sets it. A later wave gets changes after they were watched in the one before.",
    parse: wholeNumber(0, maxWaves - 1),
  }),
  GATEHOUSE_EDGE_TRUSTED_KEYS: setting({
    help: "Public keys, comma-separated, whose signatures on records are trusted. 'gatehouse signing-keys list' prints them.",
    parse: list,
  }),
  GATEHOUSE_EDGE_EMERGENCY_KEYS: setting({
    default: '',
    help: "Public keys, comma-separated, whose emergency orders this node follows; 'gatehouse edge join' sets it. Empty: none.",
    parse: list,
  }),
  GATEHOUSE_EDGE_FOLDER: setting({
    default: '/var/lib/gatehouse-edge',
    help: "Directory for the node's state and HAProxy's files.",
    parse: text,
  }),
  GATEHOUSE_EDGE_RUNTIME_FOLDER: setting({
    default: '/run/gatehouse-edge',
    help: "Directory for HAProxy's files while GATEHOUSE_EDGE_FOLDER is read-only.",
    parse: text,
  }),
  GATEHOUSE_EDGE_TCP_ADDRESSES: setting({
    default: '0.0.0.0,[::]',
    help: 'Addresses that TCP edges listen on, comma-separated.',
    parse: list,
  }),
  GATEHOUSE_TCP_PORTS: setting({
    default: '20000-29999',
    help: 'Port range for TCP edges, as first-last.',
    parse: portRange,
  }),
  GATEHOUSE_EDGE_HTTPS_LISTEN: setting({
    default: '0.0.0.0:443,[::]:443',
    help: 'Addresses and ports that HTTPS edges listen on, comma-separated.',
    parse: list,
  }),
  GATEHOUSE_EDGE_HTTP3: setting({
    default: 'off',
    help: 'Whether HTTPS edges also speak HTTP/3, over UDP on the same addresses and ports: on or off.',
    parse: onOrOff,
  }),
  GATEHOUSE_EDGE_HTTP_LISTEN: setting({
    default: '',
    help: 'Addresses and ports, comma-separated, where plain HTTP is redirected to HTTPS, such as 0.0.0.0:80,[::]:80. Empty: none.',
    parse: list,
  }),
  GATEHOUSE_EDGE_PROXY_PROTOCOL_FROM: setting({
    default: '',
    help: 'Addresses and CIDR ranges, comma-separated, of load balancers that send the PROXY protocol. Their connections are refused without it.',
    parse: cidrList,
  }),
  GATEHOUSE_EDGE_TRUSTED_PROXIES: setting({
    default: '',
    help: 'Addresses and CIDR ranges, comma-separated, whose X-Forwarded-For header names the client of an HTTPS request. All others are ignored.',
    parse: cidrList,
  }),
  GATEHOUSE_EDGE_CERTIFICATES: setting({
    default: '/etc/gatehouse-edge/certificates',
    help: 'Directory of PEM files, each with certificate, chain and key. New files are picked up automatically.',
    parse: text,
  }),
  GATEHOUSE_EDGE_UPSTREAM_CA_FILE: setting({
    default: '/etc/ssl/certs/ca-certificates.crt',
    help: 'PEM file of the CAs that may sign upstream certificates.',
    parse: text,
  }),
  GATEHOUSE_EDGE_UPSTREAM_DENY: setting({
    default: '',
    help: 'Networks, comma-separated, that upstreams must not be in. Takes precedence over the allowed networks.',
    parse: networks,
  }),
  GATEHOUSE_EDGE_UPSTREAM_ALLOW: setting({
    default: '',
    help: "Networks, comma-separated, that upstreams may be in although they are denied by default, such as 127.0.0.0/8. The node's own listeners stay denied.",
    parse: networks,
  }),
  GATEHOUSE_EDGE_CONTROL_PLANE_HOSTS: setting({
    default: '',
    help: 'Host names and addresses, comma-separated, of the control plane, PostgreSQL and other machines of yours. Like the servers of GATEHOUSE_NATS_URL, they are denied by default, at every address they resolve to.',
    parse: hosts,
  }),
  GATEHOUSE_EDGE_DNS_SERVERS: setting({
    default: '',
    help: 'DNS servers for upstream names, comma-separated, as address or address:port. Empty: those of the system.',
    parse: dnsServers,
  }),
  GATEHOUSE_EDGE_OPEN_CONNECTIONS: setting({
    default: 'keep',
    help: 'What to do with open TCP connections and WebSockets when the restrictions that apply to them change: keep or close.',
    parse: keepOrClose,
  }),
  GATEHOUSE_EDGE_DRAIN_DELAY_SECONDS: setting({
    default: '10',
    help: 'How long the node keeps accepting connections after SIGTERM, while reporting that it is not ready.',
    parse: wholeNumber(0, 3_600),
  }),
  GATEHOUSE_EDGE_DRAIN_DEADLINE_SECONDS: setting({
    default: '30',
    help: 'How long open requests and connections may take to finish after that.',
    parse: wholeNumber(0, 86_400),
  }),
  GATEHOUSE_EDGE_STATUS_LISTEN: setting({
    default: '127.0.0.1:9180',
    help: "Address and port of the node's status server, as address:port.",
    parse: listenAddress,
  }),
  GATEHOUSE_EDGE_REQUEST_LINES: setting({
    default: 'all',
    help: 'Which requests and connections HAProxy tells the agent about: all, or exceptions (refused, warned, limited and failed ones, and answers with a status of 400 and above, which costs less; nothing else is then logged, counted or shown).',
    parse: requestLines,
  }),
  GATEHOUSE_EDGE_METRICS_ROUTES: setting({
    default: '1000',
    help: 'Routes and TCP edges that have metrics of their own, which are at most 18 series each. Those beyond it are counted with their account only.',
    parse: wholeNumber(0, 100_000),
  }),
  GATEHOUSE_EDGE_ACCESS_LOG: setting({
    default: '',
    help: 'Where the access log goes, comma-separated: stdout, the absolute path of a file, syslog+udp://host:port, syslog+tcp://host:port, or the URL of an OTLP/HTTP logs endpoint. Empty: nowhere.',
    parse: logDestinations,
  }),
  GATEHOUSE_EDGE_ACCESS_LOG_SAMPLE: setting({
    default: '100%',
    help: 'Share of allowed requests and connections in the access log. Refused, warned, limited and failed ones are always in it.',
    parse: percentage,
  }),
  GATEHOUSE_EDGE_ACCESS_LOG_ADDRESSES: setting({
    default: 'full',
    help: 'Client addresses in the access log: full, or truncated to /24 (IPv6: /48).',
    parse: fullOrTruncated,
  }),
  GATEHOUSE_EDGE_ACCESS_LOG_MAX_MB: setting({
    default: '100',
    help: 'Size at which the access log file is rotated.',
    parse: wholeNumber(1, 100_000),
  }),
  GATEHOUSE_EDGE_ACCESS_LOG_FILES: setting({
    default: '5',
    help: 'Number of access log files to keep, including the current one.',
    parse: wholeNumber(1, 1_000),
  }),
  GATEHOUSE_EDGE_THREADS: setting({ default: '2', help: 'HAProxy threads.', parse: wholeNumber(1, 64) }),
  GATEHOUSE_EDGE_MAX_CONNECTIONS: setting({
    default: '20000',
    help: 'Maximum concurrent HAProxy connections.',
    parse: wholeNumber(100, 1_000_000),
  }),
  GATEHOUSE_EDGE_MAX_CONNECTIONS_PER_SOURCE: setting({
    default: '5%',
    help: 'Maximum connections, and requests in flight, per source address (IPv6: per /64): a number, or a percentage of the maximum above.',
    parse: amount,
  }),
  GATEHOUSE_EDGE_MAX_CONNECTIONS_PER_EDGE: setting({
    default: '25%',
    help: 'Maximum TCP connections or requests in flight per edge: a number, or a percentage.',
    parse: amount,
  }),
  GATEHOUSE_EDGE_MAX_CONNECTIONS_PER_ACCOUNT: setting({
    default: '50%',
    help: 'Maximum TCP connections and requests in flight per account: a number, or a percentage.',
    parse: amount,
  }),
  GATEHOUSE_EDGE_UNLIMITED_SOURCES: setting({
    default: '',
    help: 'Addresses and CIDR ranges, comma-separated, exempt from the limit per source address, such as load balancers.',
    parse: cidrList,
  }),
  ...natsSettings,
  GATEHOUSE_NATS_USER: setting({
    default: '',
    help: "NATS user name. Empty, with a password: the node's name.",
    parse: text,
  }),
  GATEHOUSE_NATS_CREDENTIALS_FILE: setting({
    default: '',
    help: "File with the NATS user JWT and private key that 'gatehouse edge join' writes. The node replaces the JWT every day. Empty: user name and password only.",
    parse: text,
  }),
  GATEHOUSE_LOG_LEVEL: setting({ default: 'info', help: `One of ${logLevels.join(', ')}.`, parse: logLevel }),
}
