import { FieldError, Input, Label, Text, TextArea, TextField, type TextFieldProps } from 'react-aria-components'
import { useFormField } from './form_fields.tsx'

type Props = Omit<TextFieldProps, 'children' | 'className' | 'name'> & {
  label: string
  /** Name of the field in the API, to show its errors here. */
  name?: string
  hint?: string
  error?: string
  rows?: number
  mono?: boolean
  placeholder?: string
}

export function Field({ label, name, hint, error, rows, mono, placeholder, onChange, ...rest }: Props) {
  const look = mono ? 'input mono' : 'input'
  const field = useFormField(name, label)
  const shown = error ?? field.error
  return (
    <TextField
      className="field"
      isInvalid={shown !== undefined}
      onChange={(value) => {
        field.clearError()
        onChange?.(value)
      }}
      {...rest}
    >
      <Label>{label}</Label>
      {rows ? (
        <TextArea className={look} rows={rows} placeholder={placeholder} spellCheck={!mono} />
      ) : (
        <Input className={look} placeholder={placeholder} spellCheck={!mono} autoCapitalize="off" autoCorrect="off" />
      )}
      {hint && (
        <Text slot="description" className="hint">
          {hint}
        </Text>
      )}
      <FieldError className="field-error">{shown}</FieldError>
    </TextField>
  )
}
