import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { Link } from 'react-router'
import type { Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { CopyButton } from '../../ui/copy.tsx'
import { Section } from '../../ui/section.tsx'
import { type Health, State } from '../../ui/state.tsx'
import { markOf, rankOf, wordOf } from '../../ui/status.tsx'
import { isHeld } from '../domains/domain.tsx'
import { ranges } from '../statistics/use_range.ts'

type Edge = Shapes['HttpsEdge']
type Domain = Shapes['ReservedDomain']
/** Unreadable and loading data counts as unknown. */
type Step = { title: string; health: Health; word: string; children: ReactNode }

/** The steps from the name to the first request: done, missing, and unknown. */
export function Checklist({ edge }: { edge: Edge }) {
  const domains = useQuery(queries.domains())
  const certificates = useQuery(queries.certificates())
  const statistics = useQuery(queries.statistics('24', ranges['24'], { edge_id: edge.id }))
  const host = hostOf(edge)
  const domain = host === undefined ? undefined : domainOf(host, domains.data ?? [])
  const steps = [
    nameStep(edge),
    domains.data ? domainStep(domain) : unread('Domain'),
    routeStep(edge),
    serverStep(edge),
    domains.data && certificates.data ? certificateStep(domain, certificates.data) : unread('Certificate'),
    statistics.data ? requestStep(statistics.data, host) : unread('First request'),
  ]
  const done = steps.filter(({ health }) => health === 'up').length
  return (
    <Section title="Checklist" note={`${done} of ${steps.length} done`}>
      <ol className="frame plain-list checklist">
        {steps.map(({ title, health, word, children }) => (
          <li key={title} aria-label={title}>
            <h3>{title}</h3>
            <State health={health}>{word}</State>
            <div className="soft">{children}</div>
          </li>
        ))}
      </ol>
    </Section>
  )
}

const unread = (title: string): Step => ({ title, health: 'unknown', word: 'Unknown', children: 'It was not read.' })

const hostOf = ({ hostports }: Edge): string | undefined => hostports[0]?.replace(/:\d+$/, '')

/** The closest domain above the name. */
const domainOf = (host: string, domains: readonly Domain[]): Domain | undefined =>
  domains
    .filter(({ domain }) => host === domain || host.endsWith(`.${domain}`))
    .toSorted((a, b) => b.domain.length - a.domain.length)[0]

function nameStep({ hostports, refused_hostports = [] }: Edge): Step {
  const title = 'Host name'
  if (hostports.length === 0) return { title, health: 'down', word: 'Missing', children: 'Nothing can reach the edge.' }
  const names = <span className="mono">{hostports.join(', ')}</span>
  if (refused_hostports.length === 0) return { title, health: 'up', word: 'Saved', children: names }
  const refused = <span className="mono">{refused_hostports.map(({ hostport }) => hostport).join(', ')}</span>
  return { title, health: 'down', word: 'Not in force', children: refused }
}

function domainStep(domain: Domain | undefined): Step {
  const title = 'Domain'
  if (!domain)
    return {
      ...{ title, health: 'unknown', word: 'Not reserved' },
      children: (
        <>
          Whether this installation asks for proof is not known here. <Link to="/domains">Reserve the domain</Link> to
          be the only account that can use its names.
        </>
      ),
    }
  const link = <Link to={`/domains/${domain.id}`}>{domain.domain}</Link>
  if (domain.verification.status === 'failing')
    return { title, health: 'partial', word: 'Record missing', children: link }
  if (isHeld(domain)) return { title, health: 'up', word: 'Verified', children: link }
  return { title, health: 'down', word: 'Not verified', children: <>{link} has the record to set.</> }
}

function routeStep({ routes: [first, ...more] }: Edge): Step {
  const title = 'Route'
  if (!first) return { title, health: 'down', word: 'Missing', children: 'Every request gets 404. Add a route.' }
  const others = more.length > 0 && ` and ${more.length} more`
  return {
    title,
    health: 'up',
    word: 'Saved',
    children: <span className="mono">{`${first.match}${others || ''}`}</span>,
  }
}

function serverStep({ routes }: Edge): Step {
  const title = 'Server answers'
  const [worst] = routes.toSorted((a, b) => rankOf(a.status) - rankOf(b.status))
  if (!worst) return { title, health: 'unknown', word: 'Unknown', children: 'There is no route to a server yet.' }
  const { status, backend } = worst
  return {
    ...{ title, health: markOf(status), word: wordOf(status) },
    children: (
      <>
        {status?.reason} {backend && <Link to={`/backends/${backend.backend.id}`}>Show the backend</Link>}
      </>
    ),
  }
}

function certificateStep(domain: Domain | undefined, certificates: readonly Shapes['TlsCertificate'][]): Step {
  const title = 'Certificate'
  const found = certificates.find(({ id }) => id === domain?.certificate?.id)
  if (found)
    return {
      ...{ title, health: markOf(found.status), word: wordOf(found.status) },
      children: (
        <Link to={`/certificates/${found.id}`}>{found.description ?? found.subject_common_name ?? found.id}</Link>
      ),
    }
  const own = domain ? <Link to={`/domains/${domain.id}`}>Choose or order one</Link> : 'Reserve the domain first'
  return {
    ...{ title, health: 'unknown', word: 'None of this account' },
    children: <>Nodes may have one of their own. {own}.</>,
  }
}

const count = new Intl.NumberFormat('en')

function requestStep({ groups, nodes_not_counting }: Shapes['TrafficStatistics'], host: string | undefined): Step {
  const title = 'First request'
  const requests = groups[0]?.sums.requests ?? 0
  if (requests > 0)
    return { title, health: 'up', word: 'Seen', children: `${count.format(requests)} in the last 24 hours` }
  const command = `curl -i https://${host ?? 'app.example'}/`
  return {
    ...{ title, health: 'unknown', word: nodes_not_counting > 0 ? 'Unknown' : 'None yet' },
    children: (
      <>
        {nodes_not_counting > 0 && 'Some nodes do not count requests. '}Try it: <code>{command}</code>{' '}
        <CopyButton text={command} what="command" />
      </>
    ),
  }
}
