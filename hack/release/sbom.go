package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const noAssertion = "NOASSERTION"

// writeSBOM writes the SPDX bill of materials of a binary.
func (r *release) writeSBOM(t target, binary []byte, linked []component) error {
	var content bytes.Buffer
	if err := spdxjson.Write(r.sbomOf(t, binary, linked), &content, spdxjson.Indent(" ")); err != nil {
		return fmt.Errorf("write the bill of materials: %w", err)
	}
	return publish(filepath.Join(r.dist, t.sbom()), content.Bytes())
}

func (r *release) sbomOf(t target, binary []byte, linked []component) *spdx.Document {
	program := &spdx.Package{
		PackageName: t.binary, PackageSPDXIdentifier: "Package-" + common.ElementID(t.String()), PackageVersion: r.version, PackageFileName: t.file(),
		PackageSupplier:         &common.Supplier{SupplierType: "Organization", Supplier: "The Bursar Authors"},
		PackageDownloadLocation: project + "/releases/download/" + r.version + "/" + t.archive(),
		PackageChecksums:        []common.Checksum{{Algorithm: common.SHA256, Value: fmt.Sprintf("%x", sha256.Sum256(binary))}},
		PackageLicenseConcluded: "Apache-2.0", PackageLicenseDeclared: "Apache-2.0", PackageCopyrightText: "The Bursar Authors",
		PackageExternalReferences: purl("github.com/bursar/bursar", r.version), PrimaryPackagePurpose: "APPLICATION",
	}
	document := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: t.String() + " " + r.version,
		DocumentNamespace: project + "/releases/download/" + r.version + "/" + t.sbom(),
		CreationInfo: &spdx.CreationInfo{
			Created:  r.time.Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Organization", Creator: "The Bursar Authors"}, {CreatorType: "Tool", Creator: "bursar-release-" + r.version}},
		},
		Packages:      []*spdx.Package{program},
		Relationships: []*spdx.Relationship{related("DOCUMENT", common.TypeRelationshipDescribe, program)},
	}
	for _, c := range linked {
		p := &spdx.Package{
			PackageName: c.name, PackageSPDXIdentifier: identifier(c), PackageVersion: c.version, PackageDownloadLocation: noAssertion,
			PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: cmp.Or(strings.Join(c.licenses, " AND "), noAssertion), PackageCopyrightText: noAssertion,
		}
		if c.isModule {
			p.PackageExternalReferences = purl(c.name, c.version)
		}
		document.Packages = append(document.Packages, p)
		document.Relationships = append(document.Relationships, related(program.PackageSPDXIdentifier, common.TypeRelationshipDependsOn, p))
	}
	return document
}

func related(from common.ElementID, relationship string, to *spdx.Package) *spdx.Relationship {
	return &spdx.Relationship{RefA: common.DocElementID{ElementRefID: from}, Relationship: relationship, RefB: common.DocElementID{ElementRefID: to.PackageSPDXIdentifier}}
}

// purl names a module for scanners.
func purl(module, version string) []*spdx.PackageExternalReference {
	return []*spdx.PackageExternalReference{{
		Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
		Locator: "pkg:golang/" + module + "@" + strings.ReplaceAll(version, "+", "%2B"),
	}}
}

// notInIdentifiers are the characters not allowed in an identifier of SPDX.
var notInIdentifiers = regexp.MustCompile(`[^a-zA-Z0-9.-]+`)

// identifier names a component within a document.
func identifier(c component) common.ElementID {
	return common.ElementID("Package-" + notInIdentifiers.ReplaceAllString(c.name+"-"+c.version, "-"))
}
