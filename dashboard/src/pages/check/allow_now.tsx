import { $api, type Shapes } from '../../api/client.ts'
import { Dialog } from '../../ui/dialog.tsx'
import { ProblemNote } from '../../ui/problem.tsx'
import type { Names } from '../traffic/names.ts'
import { Change, choicesOf } from './act.tsx'

type Question = Shapes['IpCheckCreate']
type Props = {
  question: Question
  names: Names
  /** The policy to change if several qualify; otherwise the first. */
  preferredPolicy?: string | undefined
  /** Origin of the new rule, for its description. */
  from: string
  /** Explanation if the address is allowed by now. */
  allowedMeanwhile: string
  onClose: () => void
}

/** Decides by the current rules. */
export const useCheckNow = (question: Question, isEnabled = true) =>
  $api.useQuery('post', '/ip_checks', { body: question }, { enabled: isEnabled, staleTime: 5_000, retry: false })

/** Lets a refused address in, with the same review as a draft on the policy page. */
export function AllowNow({ question, names, preferredPolicy, from, allowedMeanwhile, onClose }: Props) {
  const check = useCheckNow(question)
  if (check.isError)
    return (
      <Dialog title={`Allow ${question.ip}`} onClose={onClose}>
        <ProblemNote error={check.error} retry={() => check.refetch()} />
      </Dialog>
    )
  if (!check.data) return null
  const choices = choicesOf(check.data)
  const wanted = choices.find(({ policyId }) => policyId === preferredPolicy) ?? choices[0]
  if (!wanted)
    return (
      <Dialog title={`${question.ip} is allowed now`} onClose={onClose}>
        <p>{allowedMeanwhile}</p>
      </Dialog>
    )
  return (
    <Change ip={check.data.ip} wanted={wanted} name={names.policy(wanted.policyId)} from={from} onClose={onClose} />
  )
}
