import { useQuery } from '@tanstack/react-query'
import { useRef, useState } from 'react'
import { useSearchParams } from 'react-router'
import { parseAddress } from '../../../src/kernel/ip/address.ts'
import { $api } from '../api/client.ts'
import { queries } from '../api/queries.ts'
import { type TrafficType, traffic, trafficTypes } from '../traffic.ts'
import { Button } from '../ui/button.tsx'
import { Choice } from '../ui/choice.tsx'
import { Field } from '../ui/field.tsx'
import { Loaded } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { Act } from './check/act.tsx'
import { Path } from './check/path.tsx'

type Question = { ip: string; target: string }

const notAnAddress = 'Address must be an IPv4 or IPv6 address, such as 203.0.113.7 or 2001:db8::7.'

const isTraffic = (target: string): target is TrafficType => Object.hasOwn(traffic, target)

/** A route is checked by its id, a TCP edge as an edge, and everything else as a type of traffic. */
const bodyOf = ({ ip, target }: Question) => {
  if (isTraffic(target)) return { ip, type: target }
  return target.startsWith('edghtsrt_') ? { ip, route_id: target } : { ip, edge_id: target }
}

/** Checks any address against any traffic and shows how the decision is made, without sending a request. */
export function Check() {
  const asked = useSearchParams()[0]
  const caller = $api.useQuery('get', '/caller').data
  const targets = useTargets(asked.get('target') ?? '')
  const [ip, setIp] = useState(asked.get('ip') ?? '')
  const [target, setTarget] = useState(asked.get('target') ?? 'api')
  const [question, setQuestion] = useState<Question | undefined>(parseAddress(ip) ? { ip, target } : undefined)
  const [error, setError] = useState(ip && !question ? notAnAddress : undefined)
  const form = useRef<HTMLFormElement>(null)
  const check = $api.useQuery(
    'post',
    '/ip_checks',
    { body: bodyOf(question ?? { ip: '', target: 'api' }) },
    { enabled: question !== undefined, staleTime: 0 },
  )
  function changeIp(changed: string): void {
    setError(undefined)
    setIp(changed)
  }
  return (
    <>
      <PageHeader
        title="Check an address"
        summary="Shows whether an address would be allowed, and which restriction, policy and rule decide."
      />
      <form
        ref={form}
        className="card body check-form"
        onSubmit={(event) => {
          event.preventDefault()
          // The API treats unparsable input as refused, for agents. A person has mistyped.
          if (!parseAddress(ip.trim())) {
            setQuestion(undefined)
            setError(notAnAddress)
            form.current?.querySelector('input')?.focus()
            return
          }
          setQuestion({ ip: ip.trim(), target })
          if (question?.ip === ip.trim() && question.target === target) check.refetch()
        }}
      >
        <Field label="Address" mono value={ip} onChange={changeIp} placeholder="203.0.113.7" error={error} />
        <Choice label="Destination" value={target} onChange={setTarget} options={targets} />
        <div className="actions">
          {caller?.source_ip && (
            <Button kind="quiet" onPress={() => changeIp(caller.source_ip ?? '')}>
              Use my address
            </Button>
          )}
          <Button kind="primary" type="submit">
            Check
          </Button>
        </div>
      </form>
      {question && (
        <Loaded query={check} lines={8}>
          {(result) => (
            <>
              <Path result={result} target={targets.find(({ value }) => value === question.target)?.label ?? ''} />
              <Act result={result} />
            </>
          )}
        </Loaded>
      )}
    </>
  )
}

/** Longer lists do not help; the edge page links here with its route selected. */
const mostOffered = 500

function useTargets(chosen: string): { value: string; label: string }[] {
  const tcp = useQuery(queries.tcpEdges()).data ?? []
  const https = useQuery(queries.httpsEdges()).data ?? []
  const all = [
    ...tcp.map(({ id, hostports }) => ({ value: id, label: `TCP edge ${hostports.join(', ') || id}` })),
    ...https.flatMap(({ hostports, routes }) =>
      routes.map(({ id, match }) => ({ value: id, label: `Route ${hostports[0] ?? ''}${match}` })),
    ),
  ]
  return [
    ...trafficTypes.map((value) => ({ value, label: `${traffic[value].title}: ${traffic[value].what}` })),
    ...all.filter(({ value }, index) => index < mostOffered || value === chosen),
  ]
}
