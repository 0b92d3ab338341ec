package message

import "fmt"

// Count writes a number with the word for one, or for several.
func Count[N int | int64 | float64](n N, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n) + " " + several
}
