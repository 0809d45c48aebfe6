import { parseCidr } from '../../../../src/kernel/ip/cidr.ts'
import { rangeWithoutHostBits } from '../../rules.ts'
import { Field } from '../../ui/field.tsx'
import { wordsOf } from './access.tsx'

type Props = { value: string; onChange: (addresses: string) => void }

/** Accepts pasted ranges and offers a fix for those with host bits. */
export function AddressesField({ value, onChange }: Props) {
  const wrong = wordsOf(value).find((word) => parseCidr(word).cidr === undefined && rangeWithoutHostBits(word))
  const meant = wrong && rangeWithoutHostBits(wrong)
  return (
    <div className="field">
      <Field
        label="Allowed addresses"
        name="allowed_cidrs"
        mono
        value={value}
        onChange={onChange}
        placeholder="203.0.113.0/24"
        hint="Ranges from which the key can be used, separated by spaces. Empty: from any address."
      />
      {wrong && meant && (
        <p className="field-error" role="status">
          {wrong.split('/')[0]} is not the first address of a /{wrong.split('/')[1]} range.{' '}
          <button type="button" className="link" onClick={() => onChange(value.replace(wrong, meant))}>
            Use {meant}
          </button>
        </p>
      )}
    </div>
  )
}
